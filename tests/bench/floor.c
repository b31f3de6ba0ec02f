// SPDX-License-Identifier: BSD-2-Clause
// Minimum cost of any such tracer: an empty BPF program on the same function or tracepoint.
//
//	floor FILE FUNCTION session|entry	says "ready", attached until its input ends
//	floor TRACEPOINT
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "bench.h"
#include "elf/elf_file.h"
#include "kernel/kernel.h"

/* return 0: at a session's entry that asks for the return, too. */
static int load_empty(enum bpf_prog_type kind, unsigned int type)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = type);

	return bpf_prog_load(kind, "fsn_floor", "GPL", insns,
		ARRAY_SIZE(insns), &opts);
}

static int attach(const char *path, const char *function, bool session, int *ret_fd,
	struct err *err)
{
	unsigned int type = session ? LINK_TYPE_UPROBE_SESSION : LINK_TYPE_UPROBE_MULTI;
	_cleanup_elf_file_ struct elf_file *file = NULL;
	_cleanup_close_ int prog = -1;
	const struct elf_func *funcs;
	const struct elf_name *name;
	unsigned long offset;
	uint64_t cookie = 0;
	struct link_probes probes = { .offsets = &offset, .cookies = &cookie, .cnt = 1 };
	size_t cnt;
	int code;

	code = elf_file_open(path, &file, err);
	if (!code)
		code = elf_file_funcs(file, &funcs, &cnt, err);
	if (code)
		return code;
	name = elf_file_lookup(file, function, strlen(function));
	if (!name)
		return err_set(err, -1, "no function '%s' in %s", function, path);
	offset = funcs[name->func].offset;
	prog = load_empty(BPF_PROG_TYPE_KPROBE, type);
	if (prog < 0)
		return err_sys(err, prog, "cannot load an empty program");
	probes.file_fd = elf_file_fd(file);
	return link_multi(prog, type, false, &probes, 0, ret_fd, err);
}

static int attach_event(const char *tracepoint, int *ret_fd, struct err *err)
{
	_cleanup_close_ int prog = load_empty(BPF_PROG_TYPE_RAW_TRACEPOINT, 0);

	if (prog < 0)
		return err_sys(err, prog, "cannot load an empty program");
	*ret_fd = bpf_raw_tracepoint_open(tracepoint, prog);
	return *ret_fd < 0 ? err_sys(err, *ret_fd, "cannot attach to %s", tracepoint) : 0;
}

int main(int argc, char **argv)
{
	_cleanup_close_ int link = -1;
	struct err err = {};
	int code;

	if (argc != 2 && argc != 4)
		die("usage: floor FILE FUNCTION session|entry, or floor TRACEPOINT");
	code = argc == 2 ? attach_event(argv[1], &link, &err)
			 : attach(argv[1], argv[2], !strcmp(argv[3], "session"), &link, &err);
	if (code)
		die("%s", err.msg);
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
