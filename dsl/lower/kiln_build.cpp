/** \file
 * `kiln-build`: compiles one variant of a library and ends. Started by build_library, which gives it a job as JSON on
 * the standard input; not for people.
 */
#include "dsl/lower/CompileVariant.h"

#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <new>

#include <unistd.h>

int main() {
    try {
        std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
        nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
        if (json.is_discarded()) {
            std::cerr << "kiln-build is started by kiln and takes a job on its standard input\n";
            return 2;
        }
        kiln::CompileJob job = kiln::compile_job_from_json(json);
        kiln::CompileReply reply = kiln::compile_variant(job);
        std::ofstream out(job.reply);
        out << kiln::to_json(reply).dump();
        out.close();
        std::cout.flush();
        // Users' shared objects may fault in their destructors: the work is done.
        _exit(out.good() ? 0 : 1);
    } catch (const std::bad_alloc &) {
        std::cerr << "bad_alloc\n";
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
    }
    return 1;
}
