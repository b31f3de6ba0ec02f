/* SPDX-License-Identifier: BSD-2-Clause */
/* Versions of what the program is made of. FUNCSNOOP_VERSION comes from GNUmakefile. */
#ifndef FUNCSNOOP_BASE_VERSION_H
#define FUNCSNOOP_BASE_VERSION_H

/* "v1.1", of the libbpf that runs. */
const char *version_libbpf(void);

#endif
