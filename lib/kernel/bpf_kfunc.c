// SPDX-License-Identifier: BSD-2-Clause
// Kernel functions that BPF programs call where the kernel has them. Old kernels reject a program that
// names one, even in code that never runs: programs name a helper that does not exist, which is
// replaced before they are loaded.
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "base/util.h"
#include "kernel/kernel.h"

struct bpf_kfuncs bpf_kfuncs_find(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	struct bpf_kfuncs found = {};

	if (!btf)
		return found;
	found.task_work =
		btf__find_by_name_kind(btf, "bpf_task_work_schedule_resume", BTF_KIND_FUNC);
	/* Later kernels pass the last argument by themselves. */
	if (found.task_work < 0)
		found.task_work = btf__find_by_name_kind(
			btf, "bpf_task_work_schedule_resume_impl", BTF_KIND_FUNC);
	found.rdonly_cast = btf__find_by_name_kind(btf, "bpf_rdonly_cast", BTF_KIND_FUNC);
	btf__free(btf);
	return found;
}

/* Calls function @id instead of @helper; where there is none, the result is the first argument. */
static void name_in(struct bpf_program *prog, int32_t helper, int id)
{
	const size_t cnt = bpf_program__insn_cnt(prog);
	const struct bpf_insn *old = bpf_program__insns(prog);
	_cleanup_free_ struct bpf_insn *insns = NULL;

	for (size_t i = 0; i < cnt; i++) {
		if (old[i].code != (BPF_JMP | BPF_CALL) || old[i].imm != helper)
			continue;
		if (!insns) {
			insns = xcalloc(cnt, sizeof(*insns));
			memcpy(insns, old, cnt * sizeof(*insns));
		}
		if (id > 0)
			insns[i] = (struct bpf_insn) { .code = BPF_JMP | BPF_CALL,
				.src_reg = BPF_PSEUDO_KFUNC_CALL, .imm = id };
		else
			insns[i] = (struct bpf_insn) { .code = BPF_ALU64 | BPF_MOV | BPF_X,
				.dst_reg = BPF_REG_0, .src_reg = BPF_REG_1 };
	}
	if (insns)
		(void)bpf_program__set_insns(prog, insns, cnt);
}

void bpf_kfunc_name(struct bpf_object *object, int32_t helper, int id)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, object)
		name_in(prog, helper, id);
}
