// SPDX-License-Identifier: BSD-2-Clause
// Inputs found by fuzzing the reader of .eh_frame.
#include "../../fuzz/unwind_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("unwind");
}
