// SPDX-License-Identifier: MIT
// text_completion, whole and in chunks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/api/reply_format.h"

namespace ballast::api {

/// prefixes: the text that precedes each choice's own (its prompt where `echo` is set).
std::unique_ptr<ReplyFormat> make_completion_format(ReplyHead head,
                                                    std::vector<std::string> prefixes);

}  // namespace ballast::api
