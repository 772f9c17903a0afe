// SPDX-License-Identifier: MIT
// What a user may set about the hand-over to the engine; composed into the configuration by
// config/.
#pragma once

namespace ballast::queue {

struct QueueOptions {
    int depth = 64;                  // jobs that may wait; one more is answered 429
    int stream_bytes_max = 1 << 20;  // unread reply text after which a client is given up
};

}  // namespace ballast::queue
