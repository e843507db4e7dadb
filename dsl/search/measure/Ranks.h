/** \file
 * One search over several hosts or GPUs: `mpirun -n N kiln tune …` with Open MPI. Rank 0 searches, the others build and
 * measure. A lost trial is one lost trial; a lost rank ends the job, and `--resume` goes on.
 */
#pragma once

#include "dsl/search/measure/Measurer.h"

#include <memory>

namespace kiln::search {

class Ranks {
public:
    /// Where mpirun started more than one rank: joins them. Nothing otherwise. Throws Error K1321 where this Kiln has no
    /// libkiln_mpi.so or MPI does not start.
    static std::unique_ptr<Ranks> join();
    virtual ~Ranks() = default;

    virtual int rank() const = 0;
    virtual int size() const = 0;
    /// Rank 0: its measurer. It must end before this does.
    virtual std::unique_ptr<Measurer> measurer(const MeasureSetup &setup) = 0;
    /// Other ranks: measure what rank 0 sends until it says that it is over. GPUs of one host are dealt out to its ranks
    /// where `device` is -1.
    virtual void serve(int device) = 0;
    /// Rank 0: the job ends, for all ranks.
    virtual void abort(int code) = 0;
};

} // namespace kiln::search
