// SPDX-License-Identifier: MIT
// The rows of the table, and checking and printing by it.
#include "config/keys.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <type_traits>

#include <fmt/format.h>

#include "engine/base/byte_size.h"

namespace ballast::config {

namespace {

constexpr std::int64_t kTimeoutSecondsMax = 3600;
constexpr std::int64_t kContextMax = 1 << 20;
constexpr std::int64_t kBytesMax = 1 << 30;
constexpr std::int64_t kVramBytesMax = std::int64_t{1} << 50;

constexpr std::array<Key, 33> kKeys = {{
    {.section = "model",
     .name = "path",
     .doc = "The GGUF file that `ballast serve` serves when none is named on the command line.",
     .field = [](Config& c) -> Field { return &c.model.path; },
     .is_path = true},
    {.section = "model",
     .name = "chat_template",
     .doc = "A file with a chat template that replaces the one inside the model; empty: none.",
     .field = [](Config& c) -> Field { return &c.model.chat_template; },
     .flag = "--chat-template",
     .is_path = true},

    {.section = "server",
     .name = "host",
     .doc = "The address to listen on. Only addresses of this machine itself are allowed.",
     .field = [](Config& c) -> Field { return &c.server.host; },
     .flag = "--host"},
    {.section = "server",
     .name = "port",
     .doc = "The port to listen on; 0 takes any free one.",
     .field = [](Config& c) -> Field { return &c.server.port; },
     .max = 65535,
     .flag = "--port"},
    {.section = "server",
     .name = "io_threads",
     .doc = "Threads that speak HTTP. One is enough: the work is done by the engine's threads.",
     .field = [](Config& c) -> Field { return &c.server.io_threads; },
     .min = 1,
     .max = 16},
    {.section = "server",
     .name = "connections_max",
     .doc = "Connections open at the same time; one more is answered 503.",
     .field = [](Config& c) -> Field { return &c.server.connections_max; },
     .min = 1,
     .max = 65536},
    {.section = "server",
     .name = "body_bytes_max",
     .doc = "The largest request body in bytes; a larger one is answered 413.",
     .field = [](Config& c) -> Field { return &c.server.body_bytes_max; },
     .min = 1024,
     .max = kBytesMax},
    {.section = "server",
     .name = "header_timeout_seconds",
     .doc = "How long a client may take to send a request's header.",
     .field = [](Config& c) -> Field { return &c.server.header_timeout_seconds; },
     .min = 1,
     .max = kTimeoutSecondsMax},
    {.section = "server",
     .name = "body_timeout_seconds",
     .doc = "How long a client may take to send a request's body.",
     .field = [](Config& c) -> Field { return &c.server.body_timeout_seconds; },
     .min = 1,
     .max = kTimeoutSecondsMax},
    {.section = "server",
     .name = "idle_timeout_seconds",
     .doc = "How long a connection without a request stays open.",
     .field = [](Config& c) -> Field { return &c.server.idle_timeout_seconds; },
     .min = 1,
     .max = kTimeoutSecondsMax},
    {.section = "server",
     .name = "write_timeout_seconds",
     .doc = "How long a client may leave a reply unread before it is given up.",
     .field = [](Config& c) -> Field { return &c.server.write_timeout_seconds; },
     .min = 1,
     .max = kTimeoutSecondsMax},
    {.section = "server",
     .name = "shutdown_seconds",
     .doc = "How long running requests may go on after SIGTERM before they are cancelled.",
     .field = [](Config& c) -> Field { return &c.server.shutdown_seconds; },
     .min = 0,
     .max = kTimeoutSecondsMax},
    {.section = "server",
     .name = "sse_comments",
     .doc = "Send comment lines in a stream while a long prompt is read.",
     .field = [](Config& c) -> Field { return &c.server.sse_comments; }},
    {.section = "server",
     .name = "allowed_hosts",
     .doc = "Host headers to accept besides localhost and the address listened on.",
     .field = [](Config& c) -> Field { return &c.server.allowed_hosts; }},

    {.section = "engine",
     .name = "threads",
     .doc = "Compute threads; 0: one per logical processor.",
     .field = [](Config& c) -> Field { return &c.engine.threads; },
     .max = 1024,
     .flag = "--threads"},
    {.section = "engine",
     .name = "context",
     .doc = "Tokens one request may use, prompt and reply together; 0: what the model was trained "
            "for, 8192 at most.",
     .field = [](Config& c) -> Field { return &c.engine.context; },
     .max = kContextMax,
     .flag = "--context"},
    {.section = "engine",
     .name = "parallel",
     .doc = "Requests that are computed at the same time; more wait in the queue.",
     .field = [](Config& c) -> Field { return &c.engine.parallel; },
     .min = 1,
     .max = runtime::kParallelMax,
     .flag = "--parallel"},
    {.section = "engine",
     .name = "prefill_chunk",
     .doc =
         "Most prompt tokens computed in one go, between two steps of the running replies; fewer "
         "where that would hold those up for over a quarter of a second.",
     .field = [](Config& c) -> Field { return &c.engine.prefill_chunk; },
     .min = runtime::kPrefillGrain,
     .max = runtime::kPrefillChunkMax,
     .multiple_of = runtime::kPrefillGrain},
    {.section = "engine",
     .name = "kv_type",
     .doc = "Number format of the attention cache: f16, or f32 with twice the memory.",
     .field = [](Config& c) -> Field { return &c.engine.kv_type; },
     .choices = "f16|f32",
     .flag = "--kv-type"},
    {.section = "engine",
     .name = "force_isa",
     .doc = "Instruction set of the kernels; empty: the fastest this processor has.",
     .field = [](Config& c) -> Field { return &c.engine.force_isa; },
     .choices = "|scalar|avx2|avx512",
     .environment_alias = "BALLAST_FORCE_ISA"},
    {.section = "engine",
     .name = "profile_when_idle",
     .doc = "Measure this machine while no request runs, once, unless `ballast profile` has done "
            "it.",
     .field = [](Config& c) -> Field { return &c.engine.profile_when_idle; }},
    {.section = "engine",
     .name = "device",
     .doc = "The second device that takes a share of the model: auto (none is found by itself yet: "
            "the CPU alone), or host, a device made of threads for tests and demonstrations.",
     .field = [](Config& c) -> Field { return &c.engine.device; },
     .choices = "auto|host",
     .flag = "--device"},
    {.section = "engine",
     .name = "vram_budget",
     .doc = "Most memory of the device that is used, as in 6GiB; 0: what the device has (host: "
            "256MiB).",
     .field = [](Config& c) -> Field { return &c.engine.vram_budget; },
     .max = kVramBytesMax,
     .flag = "--vram-budget",
     .is_byte_size = true},
    {.section = "engine",
     .name = "kv_mirror_bytes",
     .doc = "Most memory of the computer, and an eighth of it at most, for copies of the keys and "
            "values that the device holds: with them a lost device costs little computing again; "
            "0: none.",
     .field = [](Config& c) -> Field { return &c.engine.kv_mirror_bytes; },
     .max = kVramBytesMax,
     .is_byte_size = true},
    {.section = "engine",
     .name = "divide_groups",
     .doc = "Let the device and the CPU compute parts of the same tensors at once where that is "
            "faster; the last bits of their sums depend on the division.",
     .field = [](Config& c) -> Field { return &c.engine.divide_groups; },
     .flag = "--divide-groups"},
    {.section = "engine",
     .name = "expert_slots",
     .doc = "Which experts of a mixture the device holds where it has room for some: frequency, "
            "those that were used most lately; lru, those that were used last; fixed, the first "
            "ones, whatever is used.",
     .field = [](Config& c) -> Field { return &c.engine.expert_slots; },
     .choices = "frequency|lru|fixed",
     .flag = "--expert-slots"},
    {.section = "engine",
     .name = "gpu_monitor",
     .doc = "Who tells what other programs take of the device: none (nobody does), or script:FILE, "
            "samples in JSON lines that are played for tests and demonstrations.",
     .field = [](Config& c) -> Field { return &c.engine.gpu_monitor; },
     .flag = "--gpu-monitor",
     .environment_alias = "BALLAST_GPU_MONITOR"},

    {.section = "queue",
     .name = "depth",
     .doc = "Requests that may wait for the engine; one more is answered 429.",
     .field = [](Config& c) -> Field { return &c.queue.depth; },
     .min = 1,
     .max = 65536},
    {.section = "queue",
     .name = "stream_bytes_max",
     .doc = "Bytes of a reply that a slow client may leave unread before it is given up.",
     .field = [](Config& c) -> Field { return &c.queue.stream_bytes_max; },
     .min = 4096,
     .max = kBytesMax},

    {.section = "api",
     .name = "model_alias",
     .doc = "A second name under which the model answers; empty: none.",
     .field = [](Config& c) -> Field { return &c.api.model_alias; }},
    {.section = "api",
     .name = "default_max_tokens",
     .doc = "Length of a reply when the request sets none; 0: up to the context in chat, 16 in "
            "/v1/completions.",
     .field = [](Config& c) -> Field { return &c.api.default_max_tokens; },
     .max = kContextMax},
    {.section = "api",
     .name = "choices_max",
     .doc = "The largest n a request may ask for.",
     .field = [](Config& c) -> Field { return &c.api.choices_max; },
     .min = 1,
     .max = 128},

    {.section = "log",
     .name = "level",
     .doc = "The least important messages that are written: debug, info, warning or error.",
     .field = [](Config& c) -> Field { return &c.log.level; },
     .choices = "debug|info|warning|error"},
}};

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(separator, begin), text.size());
        parts.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

std::string_view trim(std::string_view text) {
    const auto first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) {
        return {};
    }
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Basic string of TOML: quotes, backslashes and control characters are escaped.
std::string quote(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
            out += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
        } else {
            out += c;
        }
    }
    return out + '"';
}

std::string format_list(const std::vector<std::string>& items) {
    std::string out = "[";
    for (const std::string& item : items) {
        out += (out.size() == 1 ? "" : ", ") + quote(item);
    }
    return out + "]";
}

std::string format_given(const Value& value) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
        return fmt::format("{}", *number);
    }
    if (const auto* flag = std::get_if<bool>(&value)) {
        return *flag ? "true" : "false";
    }
    if (const auto* text = std::get_if<std::string>(&value)) {
        return quote(*text);
    }
    return format_list(std::get<std::vector<std::string>>(value));
}

tl::unexpected<Error> refuse(const Key& key, const std::string& given) {
    return fail(ErrorCode::kInvalidRequest,
                fmt::format("{} must be {}, not {}.", full_name(key), describe_type(key), given));
}

/// Embedded NUL bytes would cut a path or address short on its way to the system.
bool acceptable_text(const Key& key, const std::string& text) {
    if (text.find('\0') != std::string::npos) {
        return false;
    }
    if (key.choices.empty()) {
        return true;
    }
    const auto choices = split(key.choices, '|');
    return std::find(choices.begin(), choices.end(), text) != choices.end();
}

/// The number that a text stands for, if it is one.
std::optional<std::int64_t> read_number(const Key& key, std::string_view text) {
    if (key.is_byte_size) {
        const auto bytes = parse_byte_size(text);
        constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
        if (!bytes || *bytes > kMax) {
            return std::nullopt;
        }
        return static_cast<std::int64_t>(*bytes);
    }
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) {
        return std::nullopt;
    }
    return number;
}

/// A whole number, or the text of a size.
std::optional<std::int64_t> number_of(const Key& key, const Value& value) {
    if (const auto* text = std::get_if<std::string>(&value); text != nullptr && key.is_byte_size) {
        return read_number(key, *text);
    }
    const auto* number = std::get_if<std::int64_t>(&value);
    return number != nullptr ? std::optional(*number) : std::nullopt;
}

}  // namespace

std::span<const Key> keys() {
    return kKeys;
}

std::string full_name(const Key& key) {
    return fmt::format("{}.{}", key.section, key.name);
}

std::string environment_name(const Key& key) {
    std::string name = fmt::format("BALLAST_{}_{}", key.section, key.name);
    std::transform(name.begin(), name.end(), name.begin(), [](char c) {
        return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    return name;
}

std::string describe_type(const Key& key) {
    Config sample;  // only the field's type is looked at
    const Field field = key.field(sample);
    if (std::holds_alternative<bool*>(field)) {
        return "true or false";
    }
    if (std::holds_alternative<std::vector<std::string>*>(field)) {
        return "a list of texts";
    }
    if (std::holds_alternative<std::string*>(field)) {
        if (key.choices.empty()) {
            return "a text";
        }
        std::string out;
        const auto choices = split(key.choices, '|');
        for (std::size_t i = 0; i < choices.size(); ++i) {
            out += (i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") + quote(choices[i]);
        }
        return out;
    }
    if (key.is_byte_size) {
        return fmt::format("a size like 512MiB, up to {}",
                           format_byte_size(static_cast<std::uint64_t>(key.max)));
    }
    const std::string step =
        key.multiple_of > 1 ? fmt::format("a multiple of {}", key.multiple_of) : "a whole number";
    return fmt::format("{} from {} to {}", step, key.min, key.max);
}

Status assign(Config& config, const Key& key, const Value& value) {
    const bool done = std::visit(
        [&](auto* target) {
            using T = std::remove_pointer_t<decltype(target)>;
            if constexpr (std::is_same_v<T, int> || std::is_same_v<T, std::uint64_t>) {
                const std::optional<std::int64_t> number = number_of(key, value);
                if (!number || *number < key.min || *number > key.max ||
                    *number % key.multiple_of != 0) {
                    return false;
                }
                *target = static_cast<T>(*number);
                return true;
            } else {
                const T* given = std::get_if<T>(&value);
                if (given == nullptr) {
                    return false;
                }
                if constexpr (std::is_same_v<T, std::string>) {
                    if (!acceptable_text(key, *given)) {
                        return false;
                    }
                }
                *target = *given;
                return true;
            }
        },
        key.field(config));
    if (!done) {
        return refuse(key, format_given(value));
    }
    return {};
}

Status assign_text(Config& config, const Key& key, std::string_view text) {
    const Field field = key.field(config);
    if (std::holds_alternative<std::string*>(field)) {
        return assign(config, key, Value(std::string(text)));
    }
    if (std::holds_alternative<bool*>(field)) {
        if (text != "true" && text != "false") {
            return refuse(key, quote(text));
        }
        return assign(config, key, Value(text == "true"));
    }
    if (std::holds_alternative<std::vector<std::string>*>(field)) {
        std::vector<std::string> items;
        for (const std::string_view part : split(text, ',')) {
            if (!trim(part).empty()) {
                items.emplace_back(trim(part));
            }
        }
        return assign(config, key, Value(std::move(items)));
    }
    const std::optional<std::int64_t> number = read_number(key, text);
    if (!number) {
        return refuse(key, quote(text));
    }
    return assign(config, key, Value(*number));
}

std::string format_value(const Config& config, const Key& key) {
    Config copy = config;  // the accessors give fields that may be written to
    return std::visit(
        [&](const auto* target) -> std::string {
            using T = std::remove_cvref_t<decltype(*target)>;
            if constexpr (std::is_same_v<T, bool>) {
                return *target ? "true" : "false";
            } else if constexpr (std::is_same_v<T, std::string>) {
                return quote(*target);
            } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
                return format_list(*target);
            } else {
                const auto number = static_cast<std::int64_t>(*target);
                return key.is_byte_size && number != 0
                           ? quote(format_byte_size(static_cast<std::uint64_t>(number)))
                           : fmt::format("{}", number);
            }
        },
        key.field(copy));
}

}  // namespace ballast::config
