// SPDX-License-Identifier: BSD-2-Clause
// Targets in the kernel: system calls (s:NAME), tracepoints (t:SYSTEM:NAME) and functions (k:NAME).
#include "base/text.h"
#include "base/util.h"
#include "internal.h"
#include "kernel/trace.h"
#include "preset/preset.h"
#include "shared/words.h"
#include "target/kind.h"
#include "target/types.h"

#define ABI_32BIT     "32:" /* before the names of 32-bit programs' calls */
#define SYSCALL_ARGS  6
#define NAME_LEN      64

static const struct object syscalls = {
	.kind = OBJECT_SYSCALLS,
	.path = "[syscalls]",
	.build_id = "",
	.found_how = "this kernel",
};

/* --- arguments and results of system calls -------------------------------------------------- */

/* Internal codes of calls that the kernel restarts; not in errno(3). */
static const struct preset_code restarts[] = {
	{ -516, "ERESTART_RESTARTBLOCK" },
	{ -514, "ERESTARTNOHAND" },
	{ -513, "ERESTARTNOINTR" },
	{ -512, "ERESTARTSYS" },
};

#define ERRNO_MAX 133 /* EHWPOISON, include/uapi/asm-generic/errno.h */

/* Negative errno codes by name, the lowest first. */
static const struct preset_type *errno_type(struct targets *targets)
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

static struct preset_value syscall_value(const struct trace_field *f)
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

	return ANY_WHERE(ARRAY_SIZE(names), i, !strcmp(name, names[i]));
}

struct known_call {
	struct preset_func func; /* stays first */
	struct preset_arg args[SYSCALL_ARGS];
};

/* "char comm[16]" */
static void arg_name(struct targets *targets, const struct trace_field *f, struct preset_arg *arg)
{
	bool pointer = strchr(f->type, '*') != NULL;
	char text[256], room[16] = "";

	if (f->kind == TRACE_TEXT)
		snprintf(room, sizeof(room), "[%u]", f->size);
	snprintf(text, sizeof(text), "%s%s%s%s", f->type, pointer ? "" : " ", f->name, room);
	arg->text = targets_text(targets, text);
	arg->name = targets_text(targets, f->name);
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
struct syscall_lookup {
	struct targets *targets;
	const struct preset_type *errors;
	int tracefs;               /* or -1, and why */
	const char *tracefs_why;
};

/*
 * Returns whether a field of sys_enter_* is an argument. Newer kernels' own records (7.2) also
 * have a copy of the data that an argument points to (__filename_val), which programs do not get
 * (perf_syscall_enter, kernel/trace/trace_syscalls.c).
 */
static bool is_argument(const struct trace_field *f)
{
	return !f->is_common && f->kind != TRACE_LOC && strcmp(f->name, "__syscall_nr");
}

/* Reads the arguments in a format file; they follow the common fields and the number. */
static void syscall_declare(
	const struct syscall_lookup *by, const char *name, struct known_call *known)
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

		if (!is_argument(f) || n == SYSCALL_ARGS)
			continue;
		known->args[n].value = syscall_value(f);
		known->args[n].place = (struct preset_place) { PLACE_REG, n, 1, false };
		arg_name(targets, f, &known->args[n]);
		known->func.arg_cnt++;
	}
}

/* Overrides the kernel's declaration by @said, that of a preset or a configuration. */
static void known_override(struct preset_func *func, const struct preset_func *said)
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

_Static_assert(SYSCALL_NUMBERS == FSN_SYSCALLS, "slots are indexes of the BPF programs' table");

/* The kernel's name of the call in @slot, or NULL. */
static const char *kernel_name_of(unsigned int slot)
{
	if (slot == FSN_FUTEX_WAIT)
		return "futex";
	return syscall_name(slot < SYSCALL_NUMBERS ? SYSCALL_NATIVE : SYSCALL_32BIT,
		slot % SYSCALL_NUMBERS);
}

/* Builds the declaration from the kernel's description; @said, if not NULL, overrides it. */
static const struct preset_func *syscall_know(
	const struct syscall_lookup *f, unsigned int slot, const struct preset_func *said)
{
	struct known_call *known = targets_keep(f->targets, sizeof(*known));
	const char *name = kernel_name_of(slot);

	known->func = (struct preset_func) {
		.name = name,
		.symbol = name,
		.ret_text = "long",
		.ret = { .kind = TYPE_INT, .size = 8, .is_signed = true, .type = f->errors },
		.judge = { .kind = FSN_JUDGE_NEGATIVE, .width = 64 },
		.args = known->args,
	};
	known->func.waits = slot == FSN_FUTEX_WAIT;
	known->func.lock = slot < SYSCALL_NUMBERS && !strcmp(name, "futex");
	if (slot >= SYSCALL_NUMBERS) {
		known->func.ret_text = "int";
		known->func.ret.size = 4;
		known->func.judge.width = 32;
	} else {
		if (returns_address(name))
			known->func.ret_text = "void *";
		syscall_declare(f, name, known);
	}
	if (said)
		known_override(&known->func, said);
	return &known->func;
}

/* --- system calls, by name ------------------------------------------------------------------ */

/*
 * The slot of a call is its number; 32-bit calls follow the native ones. Formats its name as in
 * options and output: "openat", "32:open", "futex:wait". Returns false if there is none.
 */
static bool name_of(unsigned int slot, char *buf, size_t size)
{
	const char *name = kernel_name_of(slot);

	if (name)
		snprintf(buf, size, "%s%s%s", slot < SYSCALL_NUMBERS ? "" : ABI_32BIT, name,
			slot == FSN_FUTEX_WAIT ? ":wait" : "");
	return name;
}

static int syscall_names(struct lookup *l, struct err *err)
{
	char name[NAME_LEN];
	int code = 0;

	/* A pattern selects whole calls. */
	for (unsigned int slot = 0; !code && slot < 2 * SYSCALL_NUMBERS; slot++)
		if (!(l->glob && slot == FSN_FUTEX_WAIT) && name_of(slot, name, sizeof(name)))
			code = lookup_offer(l,
				l->suggests ? targets_text(l->targets, name) : name, &slot, err);
	return code;
}

static int syscall_make(
	struct lookup *l, const char *name, const void *what, struct target *t, struct err *err)
{
	unsigned int slot = *(const unsigned int *)what;

	t->object = &syscalls;
	t->offset = slot;
	t->symbol = targets_text(l->targets, name);
	t->known = syscall_know(l->by, slot, l->req->known);
	return 0;
}

static int syscall_open(struct lookup *l, struct err *err)
{
	struct syscall_lookup *f = targets_keep(l->targets, sizeof(*f));
	struct err why = {};

	*f = (struct syscall_lookup) { l->targets, errno_type(l->targets), tracefs_open(&why), NULL };
	if (f->tracefs < 0)
		f->tracefs_why = targets_text(l->targets, why.msg);
	l->by = f;
	return 0;
}

static void syscall_close(struct lookup *l)
{
	struct syscall_lookup *f = l->by;

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

/* --- probes of system calls ----------------------------------------------------------------- */

static bool is_one_of(const struct target *t, const char *const *names, size_t cnt)
{
	const char *name = t->symbol;

	if (!strncmp(name, ABI_32BIT, strlen(ABI_32BIT)))
		name += strlen(ABI_32BIT);
	return ANY_WHERE(cnt, i, !strcmp(name, names[i]));
}

static int syscall_plan(struct draft *draft, size_t first, size_t cnt,
	const struct plan_rules *rules, struct err *err)
{
	static const char *const last[] = { "exit", "exit_group" };

	for (size_t i = first; i < first + cnt; i++) {
		struct target *t = &draft->targets[i];

		if (is_one_of(t, last, ARRAY_SIZE(last)))
			event_plan(&t->plan, PLAN_EXIT_NONE, "tracepoint sys_enter",
				"it never returns");
		else
			event_plan_call(
				&t->plan, rules, "tracepoint sys_enter", "tracepoint sys_exit");
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

const struct target_kind target_syscall = {
	.number = TARGET_SYSCALL,
	.prefix = "s",
	.also = { "syscall", "syscalls" },
	.noun = "system call",
	.word = "syscall",
	.sleeps = true,
	.priced_by = PRICED_AS_SYSCALL,
	.tax = "each system call of every process takes some 200 ns longer",
	.has_paths = true,
	.stacks = STACKS_OF_USER,
	.catalogue = &calls,
	.plan = syscall_plan,
	.link = syscall_link,
};

#define EVENTS_MOST 500 /* of all processes, without --force */

static const struct object tracepoints = {
	.kind = OBJECT_TRACEPOINTS,
	.path = "[tracepoints]",
	.build_id = "",
	.found_how = "this kernel",
};

/* --- fields of tracepoints ------------------------------------------------------------------ */

/* In BPF programs the first word of the record is internal to the kernel. */
#define RECORD_BEGIN 8

static struct fsn_source source_of(const struct trace_field *f)
{
	struct fsn_source source = { .reg = FSN_NO_REG, .index = FSN_NO_REG, .size = f->size,
		.is_signed = f->is_signed, .offset = f->offset };

	if (f->offset < RECORD_BEGIN || f->offset > UINT16_MAX)
		return source;
	if (f->kind == TRACE_NUMBER)
		source.from = FSN_FROM_RECORD;
	else if (f->kind == TRACE_TEXT)
		source.from = FSN_FROM_TEXT;
	else if (f->kind == TRACE_LOC && f->of_text)
		source.from = FSN_FROM_LOC;
	else if (f->kind == TRACE_REL_LOC && f->of_text)
		source.from = FSN_FROM_REL_LOC;
	if (source.from != FSN_FROM_RECORD)
		source.size = 8;
	return source;
}

/* Pointers of a system call refer to user memory, so their text can be read. */
static struct preset_arg arg_of(const struct trace_field *f, bool of_call, size_t n)
{
	struct fsn_source source = source_of(f);
	struct preset_arg arg = { .value = { .kind = TYPE_INT, .size = f->size,
					  .is_signed = f->is_signed },
		.place = { PLACE_RECORD, n, 1, false } };
	size_t len = strlen(f->type);

	if (of_call) {
		arg.value = syscall_value(f);
		arg.place.where = PLACE_EVENT;
	} else if (source.from >= FSN_FROM_TEXT) {
		arg.value = (struct preset_value) { .kind = TYPE_STRING, .size = 8 };
	} else if (len && f->type[len - 1] == '*') {
		arg.value = (struct preset_value) { .kind = TYPE_POINTER, .size = 8 };
	}
	if (source.from == FSN_FROM_NOWHERE || n >= FSN_EVENT_STACK)
		arg.place.where = PLACE_NOWHERE;
	return arg;
}

/* A found tracepoint. */
struct known_event {
	struct preset_func func; /* stays first */
	struct event event;
	struct event_site site;
	struct preset_arg args[];
};

static struct known_event *tracepoint_know(struct targets *targets, const struct trace_event *e,
	const char *category, const struct preset_func *said)
{
	struct known_event *known =
		targets_keep(targets, sizeof(*known) + e->cnt * sizeof(*known->args));
	bool of_calls = !strcmp(category, "syscalls");
	size_t n = 0;

	known->site.offset = e->id;
	known->event = (struct event) { &tracepoints, &known->site, 1 };
	for (size_t i = 0; i < e->cnt; i++) {
		const struct trace_field *f = &e->fields[i];

		if (f->is_common || (of_calls && !is_argument(f)))
			continue;
		if (n < FSN_EVENT_STACK)
			known->site.from.arg[n] = source_of(f);
		known->args[n] = arg_of(f, of_calls, n);
		arg_name(targets, f, &known->args[n++]);
	}
	known->func.has_args = true;
	known->func.args = known->args;
	known->func.arg_cnt = n;
	event_declare(targets, &known->func, said);
	return known;
}

/* --- tracepoints, by name ------------------------------------------------------------------- */

struct tracing {
	int tracefs;
	struct trace_names names; /* read when they are first needed */
};

static int tracepoint_open(struct lookup *l, struct err *err)
{
	struct tracing *by = targets_keep(l->targets, sizeof(*by));

	*by = (struct tracing) { .tracefs = tracefs_open(err) };
	l->by = by;
	return by->tracefs < 0 ? by->tracefs : 0;
}

static void tracepoint_close(struct lookup *l)
{
	struct tracing *by = l->by;

	trace_names_done(&by->names);
	by->tracefs = close_fd(by->tracefs);
}

static int tracepoint_names(struct lookup *l, struct err *err)
{
	struct tracing *by = l->by;
	int code = 0;

	if (!l->glob && !l->suggests)
		return strchr(l->text, ':') ? lookup_offer(l, l->text, NULL, err) : -ENOENT;
	if (!by->names.cnt)
		code = tracefs_names(by->tracefs, &by->names, err);
	for (size_t i = 0; !code && i < by->names.cnt; i++)
		code = lookup_offer(l, by->names.names[i], NULL, err);
	return code;
}

static int tracepoint_make(
	struct lookup *l, const char *name, const void *what, struct target *t, struct err *err)
{
	_cleanup_trace_event_ struct trace_event event = {};
	const struct tracing *by = l->by;
	const char *colon = strchr(name, ':');
	_cleanup_free_ char *category = xstrndup(name, colon - name);
	struct known_event *known;
	int code = tracefs_event(by->tracefs, category, colon + 1, &event, err);

	if (code)
		return code;
	known = tracepoint_know(l->targets, &event, category, l->req->known);
	t->object = &tracepoints;
	t->offset = event.id;
	t->symbol = targets_text(l->targets, name);
	t->known = &known->func;
	t->event = &known->event;
	return 0;
}

static const struct catalogue events = {
	.none = "no tracepoint",
	.none_in = "",
	.parents = true,
	.open = tracepoint_open,
	.close = tracepoint_close,
	.names = tracepoint_names,
	.make = tracepoint_make,
};

/* --- probes of tracepoints ------------------------------------------------------------------ */

static int tracepoint_plan(struct draft *draft, size_t first, size_t cnt,
	const struct plan_rules *rules, struct err *err)
{
	for (size_t i = first; i < first + cnt; i++)
		event_plan(&draft->targets[i].plan, PLAN_EXIT_NONE, "tracepoint", EVENT_NO_END);
	return 0;
}

const struct target_kind target_tracepoint = {
	.number = TARGET_TRACEPOINT,
	.prefix = "t",
	.also = { "tracepoint", "rawtracepoint" },
	.noun = "tracepoint",
	.word = "tracepoint",
	.is_event = true,
	.stacks = STACKS_OF_THREADS,
	.most = EVENTS_MOST,
	.catalogue = &events,
	.plan = tracepoint_plan,
	.link = event_link,
};

#define GLOB_EXACT 64 /* functions matched by globs get one program each up to this number */

static const struct object kernel = {
	.kind = OBJECT_KERNEL,
	.path = "[kernel]",
	.build_id = "",
	.found_how = "this kernel",
};

/* --- kernel functions as BTF declares them -------------------------------------------------- */

/* The state of one lookup. */
struct kfunc_lookup {
	struct targets *targets;
	size_t first; /* index in .targets of the first one found by this lookup */
	struct kfuncs *kfuncs;
	const struct preset_type *errors;
	struct btf_types *types;
};

/* Negative results are errors if the function returns int, or ssize_t. */
static bool returns_errors(const struct preset_func *declared)
{
	return declared->ret_text &&
		(!strcmp(declared->ret_text, "int") || !strcmp(declared->ret_text, "ssize_t"));
}

/*
 * True if all arguments are in registers, one word each: trampolines pass these on in all kernels.
 */
static bool is_plain(const struct preset_func *declared)
{
	const struct preset_arg *arg = declared->args;

	return declared->has_args && !declared->is_variadic && declared->arg_cnt <= FSN_ARGS &&
		!ANY_WHERE(declared->arg_cnt, i, arg[i].value.size > 8 ||
			arg[i].value.kind == TYPE_STRUCT || arg[i].value.kind == TYPE_FLOAT);
}

/* Arguments as BTF declares them; those on the kernel's stack are not read. */
static void kfunc_declare(struct kfunc_lookup *f, struct preset_func *known)
{
	struct preset_arg *args = targets_keep(f->targets, (known->arg_cnt + 1) * sizeof(*args));

	for (size_t i = 0; i < known->arg_cnt; i++) {
		args[i] = known->args[i];
		if (args[i].place.where == PLACE_STACK)
			args[i].place.where = PLACE_NOWHERE;
	}
	known->args = args;
}

/* Builds the declaration from BTF; @said, if not NULL, overrides it. */
static const struct preset_func *kfunc_know(struct kfunc_lookup *f, const struct kfunc *func,
	const struct preset_func *said, bool *ret_plain)
{
	const struct preset_func *declared = types_of_btf(f->types, func->btf, func->id);
	struct preset_func *known = targets_keep(f->targets, sizeof(*known));

	*known = *declared;
	*ret_plain = is_plain(declared);
	kfunc_declare(f, known);
	if (returns_errors(declared)) {
		known->ret.type = f->errors;
		known->judge.kind = FSN_JUDGE_NEGATIVE;
		known->judge.width = known->ret.size * 8;
	}
	if (said)
		known_override(known, said);
	return known;
}

/* --- kernel functions, by name -------------------------------------------------------------- */

/* Returns the object of the kernel, or of a module. */
static const struct object *object_of(struct kfunc_lookup *f, const char *module)
{
	char path[128];
	struct object *object;

	if (!module)
		return &kernel;
	snprintf(path, sizeof(path), "[%s]", module);
	for (size_t i = f->first; i < f->targets->cnt; i++)
		if (!strcmp(f->targets->target[i].object->path, path))
			return f->targets->target[i].object;
	object = targets_keep(f->targets, sizeof(*object));
	*object = kernel;
	object->path = targets_text(f->targets, path);
	return object;
}

/* Reads functions of modules only for patterns and for names that the kernel itself lacks. */
static int kfunc_names(struct lookup *l, struct err *err)
{
	struct kfunc_lookup *f = l->by;
	size_t cnt, done = 0;
	const struct kfunc *funcs = kfuncs_all(f->kfuncs, &cnt);
	int code = 0;

	for (int modules = 0; !code && modules < 2; modules++) {
		for (; !code && done < cnt; done++)
			code = lookup_offer(l, funcs[done].name, &funcs[done], err);
		if (code || modules || l->suggests || (l->hits && !l->glob))
			continue;
		kfuncs_add_modules(f->kfuncs);
		funcs = kfuncs_all(f->kfuncs, &cnt);
	}
	return code;
}

static int kfunc_make(
	struct lookup *l, const char *name, const void *what, struct target *t, struct err *err)
{
	struct kfunc_lookup *f = l->by;
	const struct kfunc *func = what;
	const char *refused = kfuncs_refuse(f->kfuncs, func);
	bool plain = false;

	t->object = object_of(f, func->module);
	t->offset = func->id;
	t->symbol = targets_text(l->targets, func->name);
	t->known = kfunc_know(f, func, l->req->known, &plain);
	t->how = plain ? KFUNC_FENTRY : KFUNC_MULTI;
	if (refused)
		t->refused = targets_text(l->targets, refused);
	return 0;
}

static int kfunc_open(struct lookup *l, struct err *err)
{
	struct kfunc_lookup *f = targets_keep(l->targets, sizeof(*f));

	*f = (struct kfunc_lookup) { .targets = l->targets, .first = l->first,
		.errors = errno_type(l->targets), .types = btf_types_new(l->targets) };
	l->by = f;
	return kfuncs_open(&f->kfuncs, err);
}

static void kfunc_close(struct lookup *l)
{
	struct kfunc_lookup *f = l->by;

	btf_types_free(f->types);
	kfuncs_free(f->kfuncs);
}

static const struct catalogue functions = {
	.none = "no function",
	.none_in = " in the kernel's BTF",
	.parents = true, /* MODULE:NAME of other tracers */
	.open = kfunc_open,
	.close = kfunc_close,
	.names = kfunc_names,
	.make = kfunc_make,
};

/* --- probes of kernel functions ------------------------------------------------------------- */

/* The probe types of enum kfunc_how that this kernel has. */
struct offer {
	bool has[KFUNC_CNT];
	char lacking[136];
};

static void offer_read(struct offer *o)
{
	for (int how = 0; how < KFUNC_CNT; how++)
		o->has[how] = !kfunc_how_probe(how);
	kfunc_lacking(o->lacking, sizeof(o->lacking));
}

/* Uses kprobes, if available, for many functions and for those that trampolines do not support. */
static void plan_one(struct target *t, const struct offer *o, bool many,
	const struct plan_rules *rules)
{
	static const char *const site_whys[] = { "fentry", "kprobe.multi", "kprobe" };
	bool kprobes = o->has[KFUNC_MULTI] || o->has[KFUNC_KPROBE];
	struct plan *plan = &t->plan;

	if (!o->has[KFUNC_FENTRY] || (rules->kprobes && kprobes) || t->how != KFUNC_FENTRY || (many && kprobes && t->from_pattern))
		t->how = o->has[KFUNC_MULTI] ? KFUNC_MULTI : KFUNC_KPROBE;
	if (t->how != KFUNC_FENTRY && !kprobes) {
		snprintf(plan->refused, sizeof(plan->refused), "this kernel has no %s",
			o->has[KFUNC_FENTRY] ? "kprobes, and it has more arguments than fentry passes"
					     : o->lacking);
		t->refused = plan->refused;
		return;
	}
	event_plan_call(plan, rules, site_whys[t->how],
		t->how == KFUNC_FENTRY ? "fexit" : "kretprobe: some returns may be missed");
}

static int kfunc_plan(struct draft *draft, size_t first, size_t cnt,
	const struct plan_rules *rules, struct err *err)
{
	struct offer offer = {};
	size_t many = 0;

	offer_read(&offer);
	for (size_t i = first; i < first + cnt; i++)
		many += !draft->targets[i].refused && draft->targets[i].from_pattern;
	for (size_t i = first; i < first + cnt; i++)
		if (!draft->targets[i].refused)
			plan_one(&draft->targets[i], &offer, many > GLOB_EXACT, rules);
	return 0;
}

static int kfunc_link(
	struct probes *p, const struct draft *draft, uint32_t fn, enum link_mode mode)
{
	const struct target *t = &draft->targets[fn];
	bool fentry = t->how == KFUNC_FENTRY, ends = t->plan.exit != PLAN_EXIT_NONE;
	uint64_t at = fentry ? t->offset : (uintptr_t)t->symbol, cookie = fn;

	if (draft->entries_alone)
		ends = false;
	if (ends)
		probes_add(p, t->object_index, fentry ? ENGINE_FEXIT : ENGINE_KRETURN, at,
			cookie | (uint64_t)FSN_RETURN << FSN_COOKIE_KIND_SHIFT);
	else
		cookie |= (uint64_t)FSN_COUNT << FSN_COOKIE_KIND_SHIFT;
	probes_add(p, t->object_index, fentry ? ENGINE_FENTRY : ENGINE_KPROBE, at, cookie);
	return 0;
}

/* --- modules -------------------------------------------------------------------------------- */

/* A module may have been removed. */
static bool kfunc_is_stale(const char *path, const struct object_id *id)
{
	char folder[160];
	int len = strlen(path);

	if (!strcmp(path, kernel.path) || len < 3)
		return false;
	snprintf(folder, sizeof(folder), "/sys/module/%.*s", len - 2, path + 1);
	return access(folder, F_OK) != 0;
}

const struct target_kind target_kfunc = {
	.number = TARGET_KFUNC,
	.prefix = "k",
	.also = { "kprobe", "kretprobe", "fentry", "fexit", "kfunc", "kretfunc" },
	.instead = "use a system call or a tracepoint: 'funcsnoop list targets \"s:*\" \"t:*\"'",
	.noun = "kernel function",
	.word = "kfunc",
	.most = 500,
	.stacks = STACKS_OF_THREADS,
	.catalogue = &functions,
	.plan = kfunc_plan,
	.link = kfunc_link,
	.is_stale = kfunc_is_stale,
};
