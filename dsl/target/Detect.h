/** \file
 * Finding devices, one function a backend. Each adds a note where its driver is not there.
 */
#pragma once

#include "dsl/target/Device.h"

namespace kiln {

Device detect_cpu();
/// Asks the system to let this process use AMX's tile registers; whether it does.
bool permit_amx();
std::vector<Device> detect_cuda(std::vector<std::string> &notes);
std::vector<Device> detect_opencl(std::vector<std::string> &notes);

} // namespace kiln
