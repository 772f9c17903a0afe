# Writes the JSON files of FOLDER as string literals: cmake -DFOLDER=… -DOUT=… -DFUNCTION=… -P this
file(GLOB files "${FOLDER}/*.json")
list(SORT files)
set(rows "")
foreach(file IN LISTS files)
    # NAME_WE would cut at the first dot, and names have dots.
    get_filename_component(whole "${file}" NAME)
    string(REGEX REPLACE "\\.json$" "" name "${whole}")
    file(READ "${file}" text)
    string(APPEND rows "    {\"${name}\", R\"json(${text})json\"},\n")
endforeach()
file(WRITE "${OUT}.new"
    "#include \"scheduler/profile/stored_texts.h\"\n\n"
    "namespace ballast::scheduler {\n\nnamespace {\n\n"
    "constexpr StoredText kTexts[] = {\n${rows}};\n\n}  // namespace\n\n"
    "std::span<const StoredText> ${FUNCTION}() {\n    return kTexts;\n}\n\n"
    "}  // namespace ballast::scheduler\n")
file(COPY_FILE "${OUT}.new" "${OUT}" ONLY_IF_DIFFERENT)
