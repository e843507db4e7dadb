/** \file
 * `kiln-measure`: runs, checks and times built candidates, each in a child of its own. Started by a search, which talks
 * to it in lines of JSON; not for people.
 */
#include "dsl/search/measure/Measurer.h"

#include <cstdio>
#include <exception>

#include <fcntl.h>
#include <unistd.h>

int main() {
    // The standard output belongs to users' generators.
    int out = fcntl(1, F_DUPFD_CLOEXEC, 3), in = fcntl(0, F_DUPFD_CLOEXEC, 3);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nothing, 0);
    dup2(nothing, 1);
    int status = 1;
    try {
        status = kiln::search::serve_measurements(in, out);
    } catch (const std::exception &error) {
        fprintf(stderr, "kiln-measure: %s\n", error.what());
    }
    // Users' shared objects may fault in their destructors: the work is done.
    _exit(status);
}
