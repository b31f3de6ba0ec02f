// SPDX-License-Identifier: BSD-2-Clause
// The kernel function by which a BPF program lets a thread do something before it returns to user
// mode.
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "base/util.h"
#include "kernel/kernel.h"

uint32_t task_work_id(void)
{
	/* Later kernels pass the last argument of the second one by themselves. */
	static const char *const names[] = { "bpf_task_work_schedule_resume",
		"bpf_task_work_schedule_resume_impl" };
	struct btf *btf = btf__load_vmlinux_btf();
	int id = -1;

	for (size_t i = 0; btf && i < ARRAY_SIZE(names) && id < 0; i++)
		id = btf__find_by_name_kind(btf, names[i], BTF_KIND_FUNC);
	btf__free(btf);
	return id < 0 ? 0 : (uint32_t)id;
}

static void name_in(struct bpf_program *prog, int32_t helper, uint32_t id)
{
	const size_t cnt = bpf_program__insn_cnt(prog);
	_cleanup_free_ struct bpf_insn *insns = xcalloc(cnt, sizeof(*insns));

	memcpy(insns, bpf_program__insns(prog), cnt * sizeof(*insns));
	for (size_t i = 0; i < cnt; i++)
		if (insns[i].code == (BPF_JMP | BPF_CALL) && insns[i].imm == helper) {
			insns[i].src_reg = BPF_PSEUDO_KFUNC_CALL;
			insns[i].imm = (int32_t)id;
		}
	(void)bpf_program__set_insns(prog, insns, cnt);
}

void task_work_name(struct bpf_object *object, int32_t helper, uint32_t id)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, object)
		name_in(prog, helper, id);
}
