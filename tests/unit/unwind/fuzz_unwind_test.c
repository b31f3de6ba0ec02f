// SPDX-License-Identifier: BSD-2-Clause
// What fuzzing found in the reader of .eh_frame.
#include "../../fuzz/unwind_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("unwind");
}
