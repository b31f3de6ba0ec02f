// SPDX-License-Identifier: BSD-2-Clause
// What fuzzing found in the rows that the BPF programs make.
#include "../../fuzz/cfi_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("cfi");
}
