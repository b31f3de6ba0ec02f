// SPDX-License-Identifier: BSD-2-Clause
// Asking libraries for their version.
#include <bpf/libbpf.h>

#include "base/version.h"

const char *version_libbpf(void)
{
	return libbpf_version_string();
}
