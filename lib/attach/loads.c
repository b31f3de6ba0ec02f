// SPDX-License-Identifier: BSD-2-Clause
// Loads BPF programs at the same time. The verifier needs up to 0.1 s for each of those on uprobes,
// and libbpf loads one after the other: in its place, a thread loads each of these, and libbpf loads
// a program that does nothing, whose descriptor is then replaced.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/apart.h"
#include "base/util.h"
#include "internal.h"

#define LOADS_MAX 8

struct loader {
	const struct bpf_program *prog;
	struct bpf_prog_load_opts opts; /* .func_info and .line_info are copies */
	struct bpf_insn *insns;
	size_t insn_cnt;
	pthread_t thread;
	int fd;
};

static struct {
	bool on;
	size_t cnt;
	struct loader loader[LOADS_MAX];
} loads;

static void *loader_run(void *arg)
{
	struct loader *l = arg;

	l->fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, bpf_program__name(l->prog), "GPL", l->insns,
		l->insn_cnt, &l->opts);
	return NULL;
}

static void *copy(const void *from, size_t size)
{
	return size ? memcpy(xcalloc(1, size), from, size) : NULL;
}

static void loader_done(struct loader *l)
{
	free(l->insns);
	free((void *)l->opts.func_info);
	free((void *)l->opts.line_info);
}

static bool loader_start(struct loader *l)
{
	if (!apart_thread(&l->thread, loader_run, l))
		return true;
	loader_done(l);
	return false;
}

/* Called by libbpf before it loads @prog. If no thread can be started, it loads @prog itself. */
static int load_apart(struct bpf_program *prog, struct bpf_prog_load_opts *opts, long cookie)
{
	struct bpf_insn nothing[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	struct loader *l = &loads.loader[loads.cnt];

	(void)cookie;
	if (!loads.on || loads.cnt == LOADS_MAX)
		return 0;
	l->prog = prog;
	l->insn_cnt = bpf_program__insn_cnt(prog);
	l->insns = copy(bpf_program__insns(prog), l->insn_cnt * sizeof(*l->insns));
	l->opts = *opts;
	l->opts.sz = sizeof(l->opts);
	l->opts.func_info = copy(opts->func_info, opts->func_info_cnt * opts->func_info_rec_size);
	l->opts.line_info = copy(opts->line_info, opts->line_info_cnt * opts->line_info_rec_size);
	if (!loader_start(l))
		return 0;
	loads.cnt++;
	opts->func_info_cnt = opts->line_info_cnt = 0;
	return bpf_program__set_insns(prog, nothing, ARRAY_SIZE(nothing));
}

void loads_begin(void)
{
	static int handler;
	LIBBPF_OPTS(libbpf_prog_handler_opts, opts, .prog_prepare_load_fn = load_apart);

	/* Not unregistered: libbpf before 1.2 would then use the memory of its last handler again. */
	if (!handler)
		handler = libbpf_register_prog_handler("uprobe", BPF_PROG_TYPE_KPROBE, 0, &opts);
	loads.on = true;
}

int loads_end(void)
{
	int code = 0;

	for (struct loader *l = loads.loader; l < loads.loader + loads.cnt; l++) {
		pthread_join(l->thread, NULL);
		if (l->fd < 0)
			code = l->fd;
		else if (dup3(l->fd, bpf_program__fd(l->prog), O_CLOEXEC) < 0)
			code = -errno;
		if (l->fd >= 0)
			close(l->fd);
		loader_done(l);
	}
	loads.on = false;
	loads.cnt = 0;
	return code;
}
