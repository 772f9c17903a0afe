# Language level, warnings and sanitizers, carried by the interface target `ballast_flags`.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

find_program(BALLAST_CCACHE ccache)
if(BALLAST_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${BALLAST_CCACHE}")
endif()

add_library(ballast_flags INTERFACE)
target_include_directories(ballast_flags INTERFACE "${PROJECT_SOURCE_DIR}")
# -ffp-contract=off: a fused multiply-add is written out where it is wanted, so that every compiler
# gives the same bits.
target_compile_options(ballast_flags INTERFACE
    -ffp-contract=off -fno-omit-frame-pointer -fstack-protector-strong
    -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast
    -Wcast-align -Wformat=2 -Wimplicit-fallthrough -Wextra-semi -Wdouble-promotion)
if(BALLAST_WERROR)
    target_compile_options(ballast_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_definitions(ballast_flags INTERFACE _GLIBCXX_ASSERTIONS)
    # Warnings that g++ 12 raises falsely once it optimises: on the frames of Asio's coroutines, on
    # std::optional<std::string>, and on joining std::string (GCC bug 105651). The analyzer of
    # clang-tidy and the sanitizers find the real ones.
    target_compile_options(ballast_flags INTERFACE
        -Wno-mismatched-new-delete -Wno-maybe-uninitialized -Wno-array-bounds -Wno-restrict
        -Wno-stringop-overflow)
endif()
if(BALLAST_SANITIZE MATCHES "thread")
    # ThreadSanitizer does not understand fences. Asio's are beside its mutexes, which it does.
    target_compile_definitions(ballast_flags INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()
if(BALLAST_SANITIZE)
    list(JOIN BALLAST_SANITIZE "," joined)
    target_compile_options(ballast_flags INTERFACE "-fsanitize=${joined}" -fno-sanitize-recover=all)
    target_link_options(ballast_flags INTERFACE "-fsanitize=${joined}")
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND BALLAST_SANITIZE MATCHES "undefined")
        # clang 14 cannot emit this check's data for coroutines; g++ does not have the check.
        target_compile_options(ballast_flags INTERFACE -fno-sanitize=function)
    endif()
endif()

# Everything but the kernels also warns about narrowing conversions.
add_library(ballast_strict_flags INTERFACE)
target_link_libraries(ballast_strict_flags INTERFACE ballast_flags)
target_compile_options(ballast_strict_flags INTERFACE -Wconversion -Wno-sign-conversion)

# ballast_library(NAME SOURCES… DEPENDS targets… [PRIVATE targets…])
# One static library a folder. DEPENDS repeats the rank table: a wrong include mostly fails to link.
function(ballast_library name)
    cmake_parse_arguments(arg "KERNEL" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
    add_library(${name} STATIC ${arg_SOURCES})
    if(arg_KERNEL)
        target_link_libraries(${name} PUBLIC ${arg_DEPENDS} PRIVATE ballast_flags ${arg_PRIVATE})
    else()
        target_link_libraries(${name} PUBLIC ${arg_DEPENDS}
                                      PRIVATE ballast_strict_flags ${arg_PRIVATE})
    endif()
    target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
endfunction()
