// SPDX-License-Identifier: MIT
// What a handler returns: a coroutine that runs on its connection's strand.
#pragma once

#include <boost/asio/awaitable.hpp>

namespace ballast::http {

template <class T>
using Task = boost::asio::awaitable<T>;

}  // namespace ballast::http
