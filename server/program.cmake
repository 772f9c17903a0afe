# The program: the root of server/ and everything under it.
ballast_library(ballast_notify
    SOURCES notify.cpp signals.cpp
    DEPENDS ballast_config ballast_base fmt::fmt)
ballast_library(ballast_daemon
    SOURCES daemon.cpp
    DEPENDS ballast_config ballast_base
    PRIVATE ballast_notify ballast_cli ballast_api ballast_http ballast_queue ballast_metrics
            ballast_runtime)
add_executable(ballast main.cpp)
target_link_libraries(ballast PRIVATE ballast_strict_flags ballast_daemon ballast_cli)
set_target_properties(ballast PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
install(TARGETS ballast RUNTIME DESTINATION bin)
