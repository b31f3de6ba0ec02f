// SPDX-License-Identifier: BSD-2-Clause
// Inputs found by fuzzing the comparison of names.
#include "../../fuzz/pattern_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("pattern");
}
