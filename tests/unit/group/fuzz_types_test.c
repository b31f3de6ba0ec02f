// SPDX-License-Identifier: BSD-2-Clause
// What fuzzing found in what reads the types of a group.
#include "../../fuzz/types_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("types");
}
