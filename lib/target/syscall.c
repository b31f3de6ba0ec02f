// SPDX-License-Identifier: BSD-2-Clause
// System calls of all processes, by name, with arguments from tracefs.
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"
#include "internal.h"
#include "kernel/tracefs.h"
#include "preset/preset.h"
#include "target/kind.h"

#define ABI_32BIT     "32:" /* before the names of 32-bit programs' calls */
#define SYSCALL_ARGS  6
#define NAME_LEN      64

static const struct object syscalls = {
	.kind = OBJECT_SYSCALLS,
	.path = "[syscalls]",
	.build_id = "",
	.found_how = "this kernel",
};

/* --- arguments and results ------------------------------------------------------------------ */

/* Internal codes of calls that the kernel restarts; not in errno(3). */
static const struct preset_code restarts[] = {
	{ -516, "ERESTART_RESTARTBLOCK" },
	{ -514, "ERESTARTNOHAND" },
	{ -513, "ERESTARTNOINTR" },
	{ -512, "ERESTARTSYS" },
};

#define ERRNO_MAX 133 /* EHWPOISON, include/uapi/asm-generic/errno.h */

const struct preset_type *errno_type(struct targets *targets)
{
	struct preset_type *type = targets_keep(targets, sizeof(*type));
	struct preset_code *codes = targets_keep(
		targets, (ARRAY_SIZE(restarts) + ERRNO_MAX) * sizeof(*codes));
	size_t cnt = ARRAY_SIZE(restarts);

	memcpy(codes, restarts, sizeof(restarts));
	for (int code = ERRNO_MAX; code > 0; code--) {
		const char *name = strerrorname_np(code);

		if (name)
			codes[cnt++] = (struct preset_code) { -code, name };
	}
	*type = (struct preset_type) { .name = "errno", .kind = TYPE_INT, .size = 8,
		.is_signed = true, .codes = codes, .code_cnt = cnt };
	return type;
}

/* Number types in declarations of system calls; any other type that is not a pointer is a word. */
static const struct {
	const char *name;
	uint32_t size;
	bool is_signed;
} numbers[] = {
	{ "int", 4, true },
	{ "unsigned int", 4, false },
	{ "unsigned", 4, false },
	{ "u32", 4, false },
	{ "__u32", 4, false },
	{ "__s32", 4, true },
	{ "size_t", 8, false },
	{ "loff_t", 8, true },
	{ "off_t", 8, true },
	{ "long", 8, true },
	{ "u64", 8, false },
	{ "__u64", 8, false },
	{ "umode_t", 2, false },
	{ "pid_t", 4, true },
	{ "uid_t", 4, false },
	{ "gid_t", 4, false },
	{ "key_serial_t", 4, true },
	{ "qid_t", 4, false },
	{ "mqd_t", 4, true },
	{ "timer_t", 4, true },
	{ "clockid_t", 4, true },
	{ "const clockid_t", 4, true },
};

/* True for strings that the kernel reads. Other char pointers are data with a length. */
static bool is_text(const struct trace_field *f)
{
	static const char *const others[] = { "dev_name", "dir_name", "type", "name" };

	if (!strcmp(f->type, "const char *"))
		return strcmp(f->name, "buf") != 0 && strcmp(f->name, "u_msg_ptr") != 0;
	for (size_t i = 0; !strcmp(f->type, "char *") && i < ARRAY_SIZE(others); i++)
		if (!strcmp(f->name, others[i]))
			return true;
	return false;
}

/* The directory that a path is relative to: a descriptor, or the current directory. */
static const struct preset_type *folder_type(void)
{
	static const struct preset_code codes[] = { { -100, "AT_FDCWD" } };
	static const struct preset_type type = { .name = "dfd", .kind = TYPE_INT, .size = 4,
		.is_signed = true, .codes = codes, .code_cnt = ARRAY_SIZE(codes) };

	return &type;
}

struct preset_value syscall_value(const struct trace_field *f)
{
	size_t len = strlen(f->type), name_len = strlen(f->name);

	if (is_text(f))
		return (struct preset_value) { .kind = TYPE_STRING, .size = 8 };
	if (len && f->type[len - 1] == '*')
		return (struct preset_value) { .kind = TYPE_POINTER, .size = 8 };
	if (!strcmp(f->type, "int") && name_len >= 3 && !strcmp(f->name + name_len - 3, "dfd"))
		return (struct preset_value) { .kind = TYPE_INT, .size = 4, .is_signed = true,
			.type = folder_type() };
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (!strcmp(f->type, numbers[i].name))
			return (struct preset_value) { .kind = TYPE_INT,
				.size = numbers[i].size,
				.is_signed = numbers[i].is_signed };
	return (struct preset_value) { .kind = TYPE_UNKNOWN, .size = 8 };
}

/* Addresses are not printed as numbers, and may be higher than any error. */
static bool returns_address(const char *name)
{
	static const char *const names[] = { "mmap", "mmap2", "mremap", "brk", "shmat" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

struct known_call {
	struct preset_func func; /* stays first */
	struct preset_arg args[SYSCALL_ARGS];
};

/* The declaration and its parts. */
static void arg_declare(struct targets *targets, const struct trace_field *f, size_t index,
	struct preset_arg *arg)
{
	bool pointer = strchr(f->type, '*') != NULL;
	char text[256];

	snprintf(text, sizeof(text), "%s%s%s", f->type, pointer ? "" : " ", f->name);
	arg->text = targets_text(targets, text);
	arg->name = targets_text(targets, f->name);
	arg->value = syscall_value(f);
	arg->place = (struct preset_place) { PLACE_REG, index, 1, false };
}

/* Names of calls in tracepoints, if they differ. */
static const char *traced_name(const char *name)
{
	static const struct {
		const char *call, *traced;
	} others[] = {
		{ "stat", "newstat" },
		{ "fstat", "newfstat" },
		{ "lstat", "newlstat" },
		{ "uname", "newuname" },
		{ "umount2", "umount" },
		{ "sendfile", "sendfile64" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (!strcmp(name, others[i].call))
			return others[i].traced;
	return name;
}

/* The state of one look-up. */
struct finding {
	struct targets *targets;
	const struct preset_type *errors;
	int tracefs;               /* or -1, and why */
	const char *tracefs_why;
};

/* Reads the arguments in a format file; they follow the common fields and the number. */
static void args_declare(
	const struct finding *by, const char *name, struct known_call *known)
{
	struct targets *targets = by->targets;
	_cleanup_trace_event_ struct trace_event event = { 0 };
	char event_name[NAME_LEN + 16];
	struct err err = {};
	int code;

	if (by->tracefs < 0) {
		known->func.types_why = by->tracefs_why;
		return;
	}
	snprintf(event_name, sizeof(event_name), "sys_enter_%s", traced_name(name));
	code = tracefs_event(by->tracefs, "syscalls", event_name, &event, &err);
	if (code && code != -ENOENT)
		known->func.types_why = targets_text(targets, err.msg);
	if (code)
		return;
	known->func.has_args = true;
	for (size_t i = 0; i < event.cnt; i++) {
		const struct trace_field *f = &event.fields[i];
		size_t n = known->func.arg_cnt;

		if (f->is_common || !strcmp(f->name, "__syscall_nr") || n == SYSCALL_ARGS)
			continue;
		arg_declare(targets, f, n, &known->args[n]);
		known->func.arg_cnt++;
	}
}

void known_override(struct preset_func *func, const struct preset_func *said)
{
	func->has_slow = said->has_slow;
	func->slow_ns = said->slow_ns;
	func->optional = said->optional;
	if (said->ret_text) {
		func->ret_text = said->ret_text;
		func->ret = said->ret;
	}
	if (said->ret_text || said->judge.kind)
		func->judge = said->judge;
	if (said->has_args) {
		func->args = said->args;
		func->arg_cnt = said->arg_cnt;
		func->has_args = true;
	}
}

/* Builds the declaration from the kernel's description; @said, if not NULL, overrides it. */
static const struct preset_func *know(const struct finding *f, enum syscall_abi abi,
	const char *name, const struct preset_func *said)
{
	struct known_call *known = targets_keep(f->targets, sizeof(*known));

	known->func = (struct preset_func) {
		.name = name,
		.symbol = name,
		.ret_text = "long",
		.ret = { .kind = TYPE_INT, .size = 8, .is_signed = true, .type = f->errors },
		.judge = { .kind = FSN_JUDGE_NEGATIVE, .width = 64 },
		.args = known->args,
	};
	if (abi == SYSCALL_32BIT) {
		known->func.ret_text = "int";
		known->func.ret.size = 4;
		known->func.judge.width = 32;
	} else {
		if (returns_address(name))
			known->func.ret_text = "void *";
		args_declare(f, name, known);
	}
	if (said)
		known_override(&known->func, said);
	return &known->func;
}

/* --- by name -------------------------------------------------------------------------------- */

/*
 * The slot of a call is its number; 32-bit calls follow the native ones. Formats its name as in
 * options and output: "openat", "32:open". Returns false if there is none.
 */
static bool name_of(unsigned int slot, char *buf, size_t size)
{
	enum syscall_abi abi = slot < SYSCALL_NUMBERS ? SYSCALL_NATIVE : SYSCALL_32BIT;
	const char *name = syscall_name(abi, slot % SYSCALL_NUMBERS);

	if (name)
		snprintf(buf, size, "%s%s", abi == SYSCALL_32BIT ? ABI_32BIT : "", name);
	return name;
}

static int syscall_names(struct lookup *l, struct err *err)
{
	char name[NAME_LEN];
	int code = 0;

	for (unsigned int slot = 0; !code && slot < 2 * SYSCALL_NUMBERS; slot++)
		if (name_of(slot, name, sizeof(name)))
			code = lookup_offer(l,
				l->suggests ? targets_text(l->targets, name) : name, &slot, err);
	return code;
}

static int syscall_make(
	struct lookup *l, const char *name, const void *what, struct target *t, struct err *err)
{
	unsigned int slot = *(const unsigned int *)what;
	enum syscall_abi abi = slot < SYSCALL_NUMBERS ? SYSCALL_NATIVE : SYSCALL_32BIT;

	t->object = &syscalls;
	t->offset = slot;
	t->symbol = targets_text(l->targets, name);
	t->known = know(l->by, abi, syscall_name(abi, slot % SYSCALL_NUMBERS), l->req->known);
	return 0;
}

static int syscall_open(struct lookup *l, struct err *err)
{
	struct finding *f = targets_keep(l->targets, sizeof(*f));
	struct err why = {};

	*f = (struct finding) { l->targets, errno_type(l->targets), tracefs_open(&why), NULL };
	if (f->tracefs < 0)
		f->tracefs_why = targets_text(l->targets, why.msg);
	l->by = f;
	return 0;
}

static void syscall_close(struct lookup *l)
{
	struct finding *f = l->by;

	f->tracefs = close_fd(f->tracefs);
}

static const struct catalogue calls = {
	.none = "no system call",
	.none_in = "",
	.own_prefix = "sys_", /* of the kernel's functions */
	.open = syscall_open,
	.close = syscall_close,
	.names = syscall_names,
	.make = syscall_make,
};

/* --- probes --------------------------------------------------------------------------------- */

static bool is_one_of(const struct target *t, const char *const *names, size_t cnt)
{
	const char *name = t->symbol;

	if (!strncmp(name, ABI_32BIT, strlen(ABI_32BIT)))
		name += strlen(ABI_32BIT);
	for (size_t i = 0; i < cnt; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static int syscall_plan(struct draft *draft, size_t first, size_t cnt,
	const struct plan_rules *rules, struct err *err)
{
	static const char *const last[] = { "exit", "exit_group" };

	for (size_t i = first; i < first + cnt; i++) {
		struct target *t = &draft->targets[i];
		struct plan *plan = &t->plan;
		bool ends = !is_one_of(t, last, ARRAY_SIZE(last));

		plan->site_emulated = true;
		plan->exit = ends && rules->exit != PLAN_MODE_NONE ? PLAN_EXIT_RETURN
								   : PLAN_EXIT_NONE;
		snprintf(plan->site_why, sizeof(plan->site_why), "tracepoint sys_enter");
		snprintf(plan->exit_why, sizeof(plan->exit_why), "%s",
			!ends ? "it never returns"
			: plan->exit == PLAN_EXIT_NONE ? "only counted: --count or --probe exit=none"
						       : "tracepoint sys_exit");
	}
	return 0;
}

static int syscall_link(
	struct probes *p, const struct draft *draft, uint32_t fn, enum link_mode mode)
{
	static const char *const forks[] = { "fork", "vfork", "clone", "clone3" };
	static const char *const others[] = { "execve", "execveat" };
	const struct target *t = &draft->targets[fn];
	uint64_t cookie = fn + 1;

	if (is_one_of(t, forks, ARRAY_SIZE(forks)))
		cookie |= FSN_SYSCALL_CHILD;
	if (is_one_of(t, others, ARRAY_SIZE(others)))
		cookie |= FSN_SYSCALL_OTHER;
	if (t->plan.exit != PLAN_EXIT_NONE)
		probes_add(p, t->object_index, ENGINE_SYS_EXIT, t->offset, cookie);
	probes_add(p, t->object_index, ENGINE_SYS_ENTER, t->offset, cookie);
	return 0;
}

/* Of about 360 system calls, fewer than this many account for nearly all calls. */
#define SYSCALLS_MOST 200

const struct target_kind target_syscall = {
	.number = TARGET_SYSCALL,
	.prefix = "s",
	.also = { "syscall" },
	.noun = "system call",
	.word = "syscall",
	.priced_by = PRICED_AS_SYSCALL,
	.tax = "each system call of every process takes some 200 ns longer",
	.most = SYSCALLS_MOST,
	.has_paths = true,
	.stacks = STACKS_OF_USER,
	.catalogue = &calls,
	.plan = syscall_plan,
	.link = syscall_link,
	.is_stale = never_stale,
	.call_is_stale = event_call_is_over,
	.call_is_lost = event_call_is_over,
};
