#include "apps/kiln/Templates.h"
#include "apps/kiln/commands/Commands.h"
#include "dsl/support/Files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace kiln::cli {

namespace {

namespace fs = std::filesystem;

Diagnostic fault(const char *code, std::string message, std::string help) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.helps.push_back(std::move(help));
    return d;
}

/// The name becomes a C function, a C++ file and a CMake target.
void check_name(const std::string &name) {
    static constexpr std::array reserved = {
        "alignas", "asm",     "auto",      "bool",   "break",   "case",     "catch",  "char",     "class",
        "const",   "default", "delete",    "do",     "double",  "else",     "enum",   "export",   "extern",
        "false",   "float",   "for",       "friend", "goto",    "if",       "inline", "int",      "long",
        "main",    "mutable", "namespace", "new",    "not",     "operator", "or",     "private",  "public",
        "return",  "short",   "signed",    "sizeof", "static",  "struct",   "switch", "this",     "template",
        "test",    "throw",   "true",      "try",    "typedef", "typeid",   "union",  "unsigned", "using",
        "virtual", "void",    "while",     "xor",    "all",     "install"};
    bool well_formed =
        !name.empty() && name.size() <= 64 && std::islower(static_cast<unsigned char>(name[0])) &&
        std::all_of(name.begin(), name.end(),
                    [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '_'; }) &&
        name.find("__") == std::string::npos;
    if (!well_formed) {
        throw Error(fault("K0937", fmt::format("`{}` cannot be the name of a generator", name),
                          "take small letters, digits and single `_`, a letter first, at most 64 of them"));
    }
    if (std::find(reserved.begin(), reserved.end(), name) != reserved.end()) {
        throw Error(fault(
            "K0937",
            fmt::format("`{}` cannot be the name of a generator: C++ or CMake keep it for themselves", name),
            fmt::format("add a word: `{}_kernel`", name)));
    }
}

/// `my_kernel` as `MyKernel`.
std::string class_name(const std::string &name) {
    std::string out;
    bool upper = true;
    for (char c : name) {
        if (c == '_') {
            upper = true;
            continue;
        }
        out += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
        upper = false;
    }
    return out;
}

std::string filled_in(std::string text, const std::vector<std::pair<std::string, std::string>> &values) {
    for (const auto &[key, value] : values) {
        for (size_t at = 0; (at = text.find(key, at)) != std::string::npos; at += value.size()) {
            text.replace(at, key.size(), value);
        }
    }
    return text;
}

/// Where CMake finds this Kiln and its Halide; "" where it looks by itself.
std::string cmake_arguments() {
    fs::path prefix = program_path().parent_path().parent_path();
    if (prefix == "/usr" || prefix == "/usr/local") {
        return "";
    }
    return fmt::format("-DCMAKE_PREFIX_PATH={}", prefix.string());
}

class New : public Command {
public:
    std::string name() const override { return "new"; }
    std::string summary() const override {
        return "Writes a generator, a schedule and a CMakeLists that build and pass their check";
    }

    void define(CLI::App &app) override {
        app.add_option("NAME", name_, "The kernel's name; a folder of that name is made")
            ->required()
            ->type_name("NAME");
        app.add_option("--in", parent_, "The folder to make it in, instead of this one")->type_name("DIR");
    }

    Report run(const Settings &) override {
        check_name(name_);
        fs::path parent = parent_.empty() ? fs::path(".") : fs::path(parent_);
        fs::path folder = parent_.empty() ? fs::path(name_) : parent / name_;
        std::error_code error;
        if (!fs::is_directory(parent, error)) {
            throw Error(fault("K0930", fmt::format("no folder `{}`", parent.string()), "make it first"));
        }
        if (fs::exists(fs::symlink_status(folder, error))) {
            throw Error(fault("K0936", fmt::format("`{}` is there already", folder.string()),
                              "take another name, or move it away: nothing is overwritten"));
        }
        std::vector<std::pair<std::string, std::string>> values = {
            {"@NAME@", name_}, {"@CLASS@", class_name(name_)}, {"@CMAKE_ARGS@", cmake_arguments()}};
        std::vector<std::pair<std::string, const char *>> files = {
            {name_ + ".cpp", templates::generator_cpp},
            {name_ + ".sched", templates::schedule_sched},
            {"CMakeLists.txt", templates::CMakeLists_txt},
            {"README.md", templates::README_md}};
        Report report;
        // Made aside and moved into its place whole.
        TemporaryFolder aside(folder);
        fs::path made = aside.path() / name_;
        fs::create_directory(made, error);
        report.text = fmt::format("{}/\n", folder.string());
        report.data["folder"] = folder.string();
        report.data["files"] = nlohmann::ordered_json::array();
        for (const auto &[file, text] : files) {
            write_file_atomic(made / file, filled_in(text, values));
            report.text += fmt::format("  {}\n", file);
            report.data["files"].push_back((folder / file).string());
        }
        fs::rename(made, folder, error);
        if (error) {
            throw Error(fault("K0935", fmt::format("cannot write `{}`: {}", folder.string(), error.message()),
                              "take another folder with `--in`"));
        }
        std::string arguments = cmake_arguments();
        report.text += fmt::format(
            "\nBuild it and check it:\n\n  cmake -S {0} -B {0}/build{1}{2}\n  cmake --build {0}/build\n"
            "  ctest --test-dir {0}/build\n",
            folder.string(), arguments.empty() ? "" : " ", arguments);
        return report;
    }

private:
    std::string name_, parent_;
};

} // namespace

std::unique_ptr<Command> new_command() {
    return std::make_unique<New>();
}

} // namespace kiln::cli
