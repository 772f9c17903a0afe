// SPDX-License-Identifier: MIT
#include "server/http/router.h"

#include <gtest/gtest.h>

namespace ballast::http {
namespace {

Router some_router() {
    Router router;
    router.add({"GET", "/v1/models", BodyKind::kNone, {}});
    router.add({"GET", "/v1/models/{id}", BodyKind::kNone, {}});
    router.add({"POST", "/x", BodyKind::kJson, {}});
    return router;
}

TEST(Router, MatchesExactPaths) {
    const Router router = some_router();
    ASSERT_NE(router.match("GET", "/v1/models").route, nullptr);
    EXPECT_EQ(router.match("GET", "/v1/models").route->pattern, "/v1/models");
    EXPECT_NE(router.match("HEAD", "/v1/models").route, nullptr);
    EXPECT_NE(router.match("POST", "/x").route, nullptr);
}

TEST(Router, KnowsNoOtherPath) {
    const Router router = some_router();
    for (const char* path : {"/", "/v1", "/v1/models/", "/v1/modelsx", "/x/", "/X", "", "*"}) {
        const RouteMatch match = router.match("GET", path);
        EXPECT_EQ(match.route, nullptr) << path;
        EXPECT_TRUE(match.allow.empty()) << path;
    }
}

TEST(Router, NamesTheMethodsOfAPath) {
    const Router router = some_router();
    const RouteMatch match = router.match("DELETE", "/v1/models");
    EXPECT_EQ(match.route, nullptr);
    EXPECT_EQ(match.allow, "GET, HEAD, OPTIONS");
    EXPECT_EQ(router.match("GET", "/x").allow, "POST, OPTIONS");
    EXPECT_EQ(router.match("get", "/v1/models").route, nullptr);
}

TEST(Router, IdsMayHoldSlashesAndColonsRawOrEscaped) {
    const Router router = some_router();
    for (const char* path : {"/v1/models/user/repo:Q4_K_M", "/v1/models/user%2Frepo%3AQ4_K_M"}) {
        const RouteMatch match = router.match("GET", path);
        ASSERT_NE(match.route, nullptr) << path;
        EXPECT_EQ(match.rest, "user/repo:Q4_K_M");
        EXPECT_FALSE(match.bad_escape);
    }
    EXPECT_TRUE(router.match("GET", "/v1/models/a%2").bad_escape);
}

}  // namespace
}  // namespace ballast::http
