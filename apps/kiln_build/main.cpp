/** \file
 * `kiln-build`: compiles one variant of a library and ends. Started by build_library, which gives it a job as JSON on
 * the standard input; not for people. `kiln-build --library FILE` builds a whole library as a file of
 * kiln_add_kernels asks.
 */
#include "dsl/lower/CompileVariant.h"
#include "dsl/lower/LibraryRequest.h"
#include "dsl/search/search/Automatic.h"

#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <new>

#include <unistd.h>

namespace {

int compile() {
    std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
    nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
    if (json.is_discarded()) {
        std::cerr << "kiln-build is started by kiln and takes a job on its standard input\n";
        return 2;
    }
    kiln::CompileJob job = kiln::compile_job_from_json(json);
    kiln::CompileReply reply = kiln::compile_variant(job);
    std::ofstream out(job.reply);
    out << kiln::to_json(reply).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    out.close();
    std::cout.flush();
    // Users' shared objects may fault in their destructors: the work is done.
    _exit(out.good() ? 0 : 1);
}

int build_whole(const char *file) {
    std::vector<kiln::Diagnostic> diagnostics;
    kiln::BuildResult result;
    try {
        result = kiln::build_library(kiln::read_library_request(file, kiln::search::automatic_schedule));
        diagnostics = result.diagnostics;
    } catch (const kiln::Error &error) {
        diagnostics = error.diagnostics;
    }
    for (const kiln::Diagnostic &d : diagnostics) {
        std::ifstream in(d.file);
        std::string source{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
        std::cerr << kiln::render(d, source) << "\n";
    }
    return result.ok ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
    try {
        return argc == 3 && std::strcmp(argv[1], "--library") == 0 ? build_whole(argv[2]) : compile();
    } catch (const std::bad_alloc &) {
        std::cerr << "bad_alloc\n";
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
    }
    return 1;
}
