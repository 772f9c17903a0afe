// SPDX-License-Identifier: MIT
// One request to the server that runs on this machine, for subcommands that talk to it.
#pragma once

#include <string>
#include <utility>

#include "engine/base/result.h"

namespace ballast::cli {

struct LocalReply {
    int status = 0;
    std::string body;

    /// The error that it tells of: kCancelled for 409, else kInternal.
    Status check() const;
};

/// Where the server listens.
class LocalServer {
  public:
    LocalServer(std::string host, int port) : host_(std::move(host)), port_(port) {}

    /// Each waits a few seconds at most. Errors: kNotFound if nobody listens there, kIo.
    Result<LocalReply> post(const std::string& path, const std::string& json) const;
    Result<LocalReply> get(const std::string& path) const;

  private:
    Result<LocalReply> exchange(const std::string& head, const std::string& body) const;
    std::string host_;
    int port_;
};

}  // namespace ballast::cli
