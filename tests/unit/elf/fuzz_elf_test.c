// SPDX-License-Identifier: BSD-2-Clause
// Inputs found by fuzzing the ELF reader.
#include "../../fuzz/elf_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("elf");
}
