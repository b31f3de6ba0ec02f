// SPDX-License-Identifier: BSD-2-Clause
// Programs that libbpf has prepared, loaded again.
//
// A program on a trampoline is loaded for one function. All that differs is which: what libbpf
// makes of the object file, relocations and all, is the same, and is kept when it loads the
// first. A tracepoint takes a program only once (bpf_prog_array_copy() in kernel/bpf/core.c):
// each further probe on it needs another copy.
#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "internal.h"

enum section {
	SECTION_FENTRY,
	SECTION_FEXIT,
	SECTION_TRACE,
	SECTIONS
};

struct original {
	const struct bpf_program *prog;
	struct bpf_prog_load_opts opts; /* what it points to lives as long as the programs */
};

struct clones {
	uint32_t first_id;
	char first_object[80];
	int first_btf_fd;
	struct original original[SECTIONS];
	int handler[SECTIONS];
};

static const struct {
	const char *name;
	enum bpf_prog_type prog_type;
	enum bpf_attach_type type;
} sections[SECTIONS] = {
	[SECTION_FENTRY] = { "fsn.fentry", BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY },
	[SECTION_FEXIT] = { "fsn.fexit", BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT },
	[SECTION_TRACE] = { "fsn.trace", BPF_PROG_TYPE_TRACEPOINT, 0 },
};

/* libbpf hands a handler a number. */
static struct clones *current;

static int on_load(struct bpf_program *prog, struct bpf_prog_load_opts *opts, long section)
{
	struct clones *c = current;

	if (section != SECTION_TRACE) {
		opts->expected_attach_type = sections[section].type;
		opts->attach_btf_id = c->first_id;
		opts->attach_btf_obj_fd = c->first_btf_fd;
	}
	c->original[section] = (struct original) { prog, *opts };
	return 0;
}

/* "[module]" */
static int btf_fd_of(const char *object, struct err *err)
{
	char module[80];
	int len = strlen(object), fd;

	if (!strcmp(object, "[kernel]") || len < 3)
		return 0;
	snprintf(module, sizeof(module), "%.*s", len - 2, object + 1);
	fd = kfunc_btf_fd(module);
	if (fd < 0)
		err_sys(err, fd, "cannot open the BTF of module '%s'", module);
	return fd == -EPERM ? caps_hint(fd, CAPS_BIT(CAP_SYS_ADMIN), err) : fd;
}

int clones_new(const struct link_probes *first, bool traces, struct clones **ret_clones,
	struct err *err)
{
	struct clones *c;

	*ret_clones = NULL;
	if (!first && !traces)
		return 0;
	c = xcalloc(1, sizeof(*c));
	*ret_clones = current = c;
	if (first) {
		c->first_id = first->offsets[0];
		snprintf(c->first_object, sizeof(c->first_object), "%s", first->object);
		c->first_btf_fd = btf_fd_of(first->object, err);
		if (c->first_btf_fd < 0)
			return c->first_btf_fd;
	}
	for (long i = 0; i < SECTIONS; i++) {
		LIBBPF_OPTS(libbpf_prog_handler_opts, opts, .cookie = i,
			.prog_prepare_load_fn = on_load);

		if (i == SECTION_TRACE ? !traces : !first)
			continue;
		c->handler[i] = libbpf_register_prog_handler(
			sections[i].name, sections[i].prog_type, sections[i].type, &opts);
		if (c->handler[i] < 0)
			return err_sys(err, c->handler[i], "cannot load programs");
	}
	return 0;
}

void clones_free(struct clones *c)
{
	if (!c)
		return;
	for (int i = 0; i < SECTIONS; i++)
		if (c->handler[i] > 0)
			libbpf_unregister_prog_handler(c->handler[i]);
	if (c->first_btf_fd > 0)
		close(c->first_btf_fd);
	free(c);
}

int clone_load(struct clones *c, const struct bpf_program *prog, const char *object,
	uint32_t id, int *ret_fd, struct err *err)
{
	int section = c->original[SECTION_FENTRY].prog == prog ? SECTION_FENTRY : SECTION_FEXIT;
	struct bpf_prog_load_opts opts = c->original[section].opts;
	int btf_fd, fd;

	if (id == c->first_id && !strcmp(object, c->first_object)) {
		*ret_fd = dup(bpf_program__fd(prog));
		return *ret_fd < 0 ? err_sys(err, -errno, "cannot load programs") : 0;
	}
	btf_fd = btf_fd_of(object, err);
	if (btf_fd < 0)
		return btf_fd;
	opts.attach_btf_id = id;
	opts.attach_btf_obj_fd = btf_fd;
	opts.fd_array = NULL; /* no function of a module is called */
	opts.log_level = 0;
	fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, bpf_program__name(prog), "GPL",
		bpf_program__insns(prog), bpf_program__insn_cnt(prog), &opts);
	if (fd < 0)
		fd = err_sys(err, -errno, "cannot load programs for a function of %s", object);
	else
		*ret_fd = fd;
	if (btf_fd > 0)
		close(btf_fd);
	return fd < 0 ? fd : 0;
}

int clone_again(struct clones *c, const struct bpf_program *prog, int *ret_fd, struct err *err)
{
	struct bpf_prog_load_opts opts = c->original[SECTION_TRACE].opts;
	int fd;

	opts.fd_array = NULL; /* no function of a module is called */
	opts.log_level = 0;
	fd = bpf_prog_load(BPF_PROG_TYPE_TRACEPOINT, bpf_program__name(prog), "GPL",
		bpf_program__insns(prog), bpf_program__insn_cnt(prog), &opts);
	if (fd < 0)
		return err_sys(err, -errno, "cannot load programs for a tracepoint");
	*ret_fd = fd;
	return 0;
}
