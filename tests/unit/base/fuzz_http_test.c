// SPDX-License-Identifier: BSD-2-Clause
// What fuzzing found in what reads requests.
#include "../../fuzz/http_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("http");
}
