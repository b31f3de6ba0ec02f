// SPDX-License-Identifier: BSD-2-Clause
// Inputs found by fuzzing the reader of a group's types.
#include "../../fuzz/types_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("types");
}
