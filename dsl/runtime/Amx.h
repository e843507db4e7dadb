/** \file
 * AMX's tile registers, which Linux keeps from a process until it asks for them.
 */
#pragma once

namespace kiln::runtime {

/// Whether this process may use them. Asks the system the first time.
bool amx_is_permitted();

} // namespace kiln::runtime
