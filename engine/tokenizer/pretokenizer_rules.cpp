// SPDX-License-Identifier: MIT
// The expressions are facts about published models: those in their tokenizer.json, written so that
// no search is worse than linear. Several models share a family under different names.
#include "engine/tokenizer/pretokenizer_rules.h"

#include <array>

#include <fmt/format.h>

namespace ballast::tokenizer {

namespace {

// GPT-2's: contractions, words with one space before, numbers, other signs, white space. The last
// white space before a word is left over and joins the word. The final `|\s+` of the original is
// missing because what no pattern takes is a fragment anyway.
constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";
constexpr std::array kGpt2 = {kGpt2Words};

constexpr std::array kSingleDigits = {std::string_view(R"(\p{N})"), kGpt2Words};

constexpr std::array kFalcon = {
    std::string_view(R"([\p{P}$+<=>^~|`]+)"), kGpt2Words, std::string_view(R"([0-9][0-9][0-9])")};

constexpr std::array kDefault = {std::string_view(R"([\p{P}$+<=>^~|]+)"),
                                 kGpt2Words,
                                 std::string_view(R"(\p{N}+)"),
                                 std::string_view(R"([0-9][0-9][0-9])")};

// A word takes one sign before it; line ends stay with the signs before them.
constexpr std::array kLlama3 = {
    std::string_view(R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]))"
                     R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
                     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)")};

// The same with single digits.
constexpr std::array kQwen2 = {
    std::string_view(R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]))"
                     R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
                     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)")};

// Qwen2's with combining marks counted as letters.
constexpr std::array kQwen35 = {
    std::string_view(R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]))"
                     R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
                     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)")};

// A word is capitals then small letters, or capitals alone; letters without case are both.
constexpr std::array kTekken = {std::string_view(
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};

// Tekken's, where a word keeps its contraction and three digits go together.
constexpr std::array kGpt4o = {std::string_view(
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};

// `\s+$` of the original, begun only where white space begins: otherwise a long run that is not at
// the end would be tried from each of its places.
constexpr std::array kDeepseekLlm = {
    std::string_view(R"([\r\n])"),
    std::string_view(
        R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF})"
        R"(\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D})"
        R"(\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5})"
        R"(\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5})"
        R"(\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
        R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15})"
        R"(\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59})"
        R"(\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE})"
        R"(\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB})"
        R"(\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
        R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D})"
        R"(\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183})"
        R"(\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3})"
        R"(\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
        R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})"
        R"(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3})"
        R"(\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"
        R"(\x{1E900}-\x{1E943}]+)"),
    std::string_view(R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F})"
                     R"(\x{3000}-\x{3002}]+)"),
    std::string_view(R"((?<!\s)\s++\z)"),
    std::string_view(R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"),
    std::string_view(R"(\p{N}+)")};

constexpr std::array kDeepseekCoder = {
    std::string_view(R"([\r\n])"),
    std::string_view(R"(\s?\p{L}+)"),
    std::string_view(R"(\s?\p{P}+)"),
    std::string_view(R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"),
    std::string_view(R"(\p{N})")};

constexpr std::array kDeepseekV3 = {
    std::string_view(R"(\p{N}{1,3})"),
    std::string_view(R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"),
    std::string_view(R"([!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
                     R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};

constexpr std::array kBloom = {
    std::string_view(R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C}]+)")};

constexpr PretokenizerRule kLlama3WithBos = {
    .patterns = kLlama3, .whole_words_first = true, .adds_bos = true};

struct NamedRule {
    std::string_view name;
    PretokenizerRule rule;
};

// clang-format off
constexpr std::array kRules = {
    NamedRule{"default",          {.patterns = kDefault}},
    NamedRule{"gpt-2",            {.patterns = kGpt2}},
    NamedRule{"phi-2",            {.patterns = kGpt2}},
    NamedRule{"mpt",              {.patterns = kGpt2}},
    NamedRule{"olmo",             {.patterns = kGpt2}},
    NamedRule{"jais",             {.patterns = kGpt2}},
    NamedRule{"exaone4",          {.patterns = kGpt2}},
    NamedRule{"gigachat",         {.patterns = kGpt2}},
    NamedRule{"mellum",           {.patterns = kGpt2}},
    NamedRule{"a.x-4.0",          {.patterns = kGpt2}},
    NamedRule{"trillion",         {.patterns = kGpt2, .cleans_up_spaces = false}},
    NamedRule{"granite-docling",  {.patterns = kGpt2, .cleans_up_spaces = false}},
    NamedRule{"starcoder",        {.patterns = kSingleDigits}},
    NamedRule{"refact",           {.patterns = kSingleDigits}},
    NamedRule{"codeshell",        {.patterns = kSingleDigits}},
    NamedRule{"exaone",           {.patterns = kSingleDigits}},
    NamedRule{"minerva-7b",       {.patterns = kSingleDigits}},
    NamedRule{"mellum2",          {.patterns = kSingleDigits}},
    NamedRule{"command-r",        {.patterns = kSingleDigits, .cleans_up_spaces = false}},
    NamedRule{"smollm",           {.patterns = kSingleDigits, .cleans_up_spaces = false}},
    NamedRule{"falcon",           {.patterns = kFalcon}},
    NamedRule{"llama3",           kLlama3WithBos},
    NamedRule{"llama-v3",         kLlama3WithBos},
    NamedRule{"llama-bpe",        kLlama3WithBos},
    NamedRule{"falcon3",          kLlama3WithBos},
    NamedRule{"falcon-h1",        kLlama3WithBos},
    NamedRule{"pixtral",          kLlama3WithBos},
    NamedRule{"midm-2.0",         kLlama3WithBos},
    NamedRule{"lfm2",             kLlama3WithBos},
    NamedRule{"dbrx",             {.patterns = kLlama3}},
    NamedRule{"smaug-bpe",        {.patterns = kLlama3}},
    NamedRule{"chatglm-bpe",      {.patterns = kLlama3}},
    NamedRule{"glm4",             {.patterns = kLlama3}},
    NamedRule{"qwen2",            {.patterns = kQwen2, .cleans_up_spaces = false}},
    NamedRule{"deepseek-r1-qwen", {.patterns = kQwen2, .cleans_up_spaces = false}},
    NamedRule{"megrez",           {.patterns = kQwen2}},
    NamedRule{"stablelm2",        {.patterns = kQwen2}},
    NamedRule{"hunyuan",          {.patterns = kQwen2, .cleans_up_spaces = false}},
    NamedRule{"grok-2",           {.patterns = kQwen2, .cleans_up_spaces = false}},
    NamedRule{"solar-open",       {.patterns = kQwen2, .cleans_up_spaces = false}},
    NamedRule{"qwen35",           {.patterns = kQwen35, .cleans_up_spaces = false}},
    NamedRule{"tekken",           {.patterns = kTekken, .whole_words_first = true, .adds_bos = true,
                                   .cleans_up_spaces = false}},
    NamedRule{"gpt-4o",           {.patterns = kGpt4o, .cleans_up_spaces = false}},
    NamedRule{"llama4",           {.patterns = kGpt4o, .cleans_up_spaces = false}},
    NamedRule{"kanana2",          {.patterns = kGpt4o, .cleans_up_spaces = false}},
    NamedRule{"minimax-m2",       {.patterns = kGpt4o, .cleans_up_spaces = false}},
    NamedRule{"deepseek-llm",     {.patterns = kDeepseekLlm, .cleans_up_spaces = false}},
    NamedRule{"deepseek-coder",   {.patterns = kDeepseekCoder, .cleans_up_spaces = false}},
    NamedRule{"deepseek-v3",      {.patterns = kDeepseekV3, .cleans_up_spaces = false}},
    NamedRule{"hunyuan-dense",    {.patterns = kDeepseekV3, .cleans_up_spaces = false}},
    NamedRule{"joyai-llm",        {.patterns = kDeepseekV3, .cleans_up_spaces = false}},
    NamedRule{"bloom",            {.patterns = kBloom}},
    NamedRule{"gpt3-finnish",     {.patterns = kBloom}},
    NamedRule{"poro-chat",        {.patterns = kBloom, .cleans_up_spaces = false}},
};
// clang-format on

}  // namespace

Result<PretokenizerRule> find_pretokenizer_rule(std::string_view name) {
    const std::string_view wanted = name.empty() ? "default" : name;
    for (const NamedRule& entry : kRules) {
        if (entry.name == wanted) {
            return entry.rule;
        }
    }
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("tokenizer.ggml.pre is '{}', a pre-tokenizer Ballast does not know.", name));
}

std::vector<std::string_view> pretokenizer_names() {
    std::vector<std::string_view> names;
    for (const NamedRule& entry : kRules) {
        names.push_back(entry.name);
    }
    return names;
}

}  // namespace ballast::tokenizer
