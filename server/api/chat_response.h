// SPDX-License-Identifier: MIT
// chat.completion and chat.completion.chunk.
#pragma once

#include <memory>

#include "server/api/reply_format.h"

namespace ballast::api {

std::unique_ptr<ReplyFormat> make_chat_format(ReplyHead head);

}  // namespace ballast::api
