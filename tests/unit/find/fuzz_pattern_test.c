// SPDX-License-Identifier: BSD-2-Clause
// What fuzzing found in what compares names.
#include "../../fuzz/pattern_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("pattern");
}
