// SPDX-License-Identifier: BSD-2-Clause
// Inputs found by fuzzing the reader of debug information.
#include "../../fuzz/dwarf_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("dwarf");
}
