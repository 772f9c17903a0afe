# SPDX-License-Identifier: MIT
"""The architecture as tables: which folder may include which, and where other people's headers may
stand. docs/architecture.md explains them; tests/tidy/tidy.py enforces them."""

# A file may include its own folder and folders of a strictly lower rank. A folder that is not here
# fails, so that a new one gets its place before it gets its first file.
RANKS = {
    "engine/base": 0,
    "engine/quant": 1,
    "scheduler/profile": 1,
    "engine/gguf": 2,
    "engine/kernels/cpu": 2,
    "engine/kernels/cuda": 2,
    "engine/kernels/vulkan": 2,
    "scheduler/load": 2,
    "engine/tokenizer": 3,
    "engine/chat": 3,
    "scheduler/transfer": 3,
    "engine/sampling": 4,
    "scheduler/placement": 4,
    "engine/backend": 5,
    "scheduler": 5,
    "engine/cache": 6,
    "scheduler/sim": 6,
    "engine/model": 7,
    "engine/runtime": 8,
    "server/http": 9,
    "server/queue": 9,
    "server/metrics": 10,
    "server/api": 11,
    "server/ui": 11,
    "config": 12,
    "server/cli": 13,
    "server": 14,
}


def forbidden_edge(folder, target):
    """Says why an include is wrong whatever the ranks are, or returns None."""
    to = target.rsplit("/", 1)[0]
    if folder.split("/")[0] == "scheduler" and to.startswith("engine/") and to != "engine/base":
        return "the scheduler knows nothing of the engine but engine/base"
    if folder == "server/http" and to != "engine/base" and to.split("/")[0] in ("engine",
                                                                               "scheduler"):
        return "server/http is transport only: of the engine it may know engine/base"
    if folder == "config" and to not in ("config", "engine/base"):
        if not target.endswith("/options.h"):
            return "config composes options.h headers and knows nothing else"
    if to == "config" and folder not in ("config", "server", "server/cli"):
        return "only server/ and server/cli read the configuration; others get their options"
    if to.split("/")[0] == "tests":
        return "the product does not include its tests"
    return None


_ASIO = [r"server/http/", r"server/[^/]+$", r"server/queue/token_stream\."]
_JSON = [r"server/api/", r"server/cli/", r"engine/chat/", r"engine/sampling/json_schema\.",
         r"scheduler/profile/(profile|model)_store\.", r"scheduler/load/sample_script\.",
         r"scheduler/sim/trace\."]

# (header pattern, patterns of the files that may include it). The first match decides; a header
# that matches none of these and is not of the language or of POSIX fails.
CONTAINMENT = [
    (r"boost/beast(/|\.hpp)", [r"server/http/"]),
    (r"boost/", _ASIO),
    (r"nlohmann/json_fwd\.hpp$", _JSON),
    (r"nlohmann/", [pattern + r"[^/]*\.cpp$" if pattern.endswith("/") else pattern + "cpp$"
                    for pattern in _JSON]),
    (r"toml\+\+/", [r"config/load\.cpp$"]),
    (r"CLI/", [r"server/cli/"]),
    (r"prometheus/", [r"server/metrics/"]),
    (r"pcre2\.h$", [r"engine/tokenizer/pretokenize\.cpp$"]),
    (r"utf8proc\.h$", [r"engine/tokenizer/"]),
    (r"cblas\.h$", [r"engine/kernels/cpu/"]),
    (r"openssl/", [r"server/http/"]),
    (r"cuda", [r"engine/kernels/cuda/", r"engine/backend/cuda/"]),
    (r"vulkan/", [r"engine/kernels/vulkan/", r"engine/backend/vulkan/"]),
    (r"([a-z]+intrin|arm_neon)\.h$", [r"engine/kernels/cpu/"]),
    (r"tl/expected\.hpp$", [r"engine/base/result\.h$"]),
    (r"fmt/", [r"engine/", r"scheduler/", r"config/", r"server/"]),
]

# Headers of C and POSIX. Those of C++ are the ones without a dot or a slash.
SYSTEM_HEADERS = {
    "arpa/inet.h", "cpuid.h", "dirent.h", "dlfcn.h", "errno.h", "fcntl.h", "netdb.h",
    "netinet/in.h", "poll.h", "pthread.h", "sched.h", "signal.h", "sys/auxv.h", "sys/eventfd.h",
    "sys/mman.h", "sys/prctl.h", "sys/resource.h", "sys/socket.h", "sys/stat.h", "sys/syscall.h",
    "sys/sysctl.h", "sys/time.h", "sys/types.h", "sys/uio.h", "sys/un.h", "sys/utsname.h",
    "sys/wait.h", "time.h", "ucontext.h", "unistd.h",
}

# (name, pattern, what to use instead, patterns of files where it is allowed). Patterns see code
# without comments and string literals.
BANNED = [
    ("steady_clock::now", r"\bsteady_clock::now\b", "a Clock that is passed in",
     [r"engine/base/clock\.cpp$"]),
    ("system_clock::now", r"\bsystem_clock::now\b", "a Clock that is passed in",
     [r"engine/base/clock\.cpp$"]),
    ("sleep_for", r"\bsleep_(for|until)\b", "a wait with a deadline and a stop flag", []),
    ("random_device", r"\brandom_device\b", "an Rng that is passed in", []),
    ("rand(", r"\bs?rand\s*\(", "an Rng that is passed in", []),
    ("getenv", r"\bgetenv\b", "an option; config/ reads the environment",
     [r"config/", r"server/notify\.cpp$"]),
    ("std::regex", r"\bstd::(w)?regex|#\s*include\s*<regex>", "a parser of a few lines, or PCRE2",
     []),
    ("iostream", r"#\s*include\s*<iostream>|\bstd::(cout|cerr|clog|cin)\b",
     "engine/base/log.h, or fmt::print where a program prints", []),
    ("std::bind", r"\bstd::bind\b", "a lambda", []),
    ("using namespace", r"\busing\s+namespace\b", "names, or a namespace alias", []),
    ("new", r"(?<![\w.])new\s+[A-Za-z_(:]", "make_unique or a container", []),
    ("delete", r"(?<![=\w]\s)(?<![=\w])\bdelete(\[\])?\s+[A-Za-z_(*]", "an owner", []),
    ("malloc(", r"\b(malloc|calloc|realloc)\s*\(", "engine/base/aligned_buffer.h or a container",
     []),
    ("detach(", r"\bdetach\s*\(", "engine/base/thread.h, which joins", []),
    ("reinterpret_cast", r"\breinterpret_cast\b", "static_cast or bit_cast",
     [r"engine/base/mapped_file\.cpp$", r"engine/gguf/", r"engine/quant/", r"engine/kernels/",
      r"engine/backend/"]),
    ("throw", r"\bthrow\b", "a Result", []),
]

# Functions that are longer than the limit on purpose: (file, function) and the reason.
LONG_FUNCTIONS = {}
# Files that are longer than the limit on purpose, and the reason.
LONG_FILES = {
    "engine/kernels/cpu/simd_attention.h": "inlined into each instruction set's source",
}
