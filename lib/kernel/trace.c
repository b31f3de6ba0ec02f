// SPDX-License-Identifier: BSD-2-Clause
// Tracepoints, system calls and functions of the kernel, by tracefs and BTF.
#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/magic.h>

#include "base/file.h"
#include "base/text.h"
#include "base/util.h"
#include "kernel/kernel.h"
#include "kernel/trace.h"
#include "proc/proc.h"

#define MAX_FORMAT (1u << 20)
#define MAX_RECORD (1u << 16)

/* --- format files --------------------------------------------------------------------- */

static bool starts(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* Parses an attribute after the declaration: "offset:8". */
static bool number_after(const char *text, const char *key, uint32_t *ret_value)
{
	const char *at = strstr(text, key);
	unsigned long value;
	char *end;

	if (!at || !isdigit((unsigned char)at[strlen(key)]))
		return false;
	value = strtoul(at + strlen(key), &end, 10);
	*ret_value = value;
	return *end == ';' && value <= MAX_RECORD;
}

/* The name is the last word of a declaration: separates it, and removes an array's length. */
static bool declaration_split(char *decl, struct trace_field *field, bool *ret_array)
{
	char *bracket = strrchr(decl, '[');
	char *end = decl + strlen(decl), *name;

	/* "__data_loc char[] name": these brackets are the type's */
	*ret_array = bracket && bracket != decl && end[-1] == ']';
	if (*ret_array)
		*bracket = '\0';
	name = decl + strlen(decl);
	while (name > decl && (isalnum((unsigned char)name[-1]) || name[-1] == '_'))
		name--;
	if (name == decl || !*name)
		return false;
	field->name = name;
	field->type = decl;
	if (name[-1] != ' ')
		return false;
	name[-1] = '\0';
	return true;
}

static enum trace_kind field_kind(const struct trace_field *f, bool array)
{
	if (starts(f->type, "__data_loc "))
		return TRACE_LOC;
	if (starts(f->type, "__rel_loc "))
		return TRACE_REL_LOC;
	if (array)
		return !strcmp(f->type, "char") ? TRACE_TEXT : TRACE_BYTES;
	if (f->size == 1 || f->size == 2 || f->size == 4 || f->size == 8)
		return TRACE_NUMBER;
	return TRACE_BYTES;
}

/* "field:unsigned int len;\toffset:16;\tsize:4;\tsigned:0;" */
static bool field_parse(char *line, struct trace_field *ret_field)
{
	struct trace_field f = { 0 };
	char *end = strchr(line, ';');
	uint32_t is_signed = 0;
	bool array;

	if (!end || !number_after(end, "offset:", &f.offset) ||
		!number_after(end, "size:", &f.size))
		return false;
	f.is_signed = number_after(end, "signed:", &is_signed) && is_signed;
	*end = '\0';
	if (!declaration_split(line, &f, &array))
		return false;
	f.kind = field_kind(&f, array);
	if ((f.kind == TRACE_LOC || f.kind == TRACE_REL_LOC) && f.size != 4)
		return false;
	f.of_text = strstr(f.type, " char[]") != NULL;
	f.is_common = starts(f.name, "common_");
	*ret_field = f;
	return true;
}

static int event_line(struct trace_event *e, char *line, bool *has_id, struct err *err)
{
	while (isspace((unsigned char)*line))
		line++;
	if (starts(line, "ID: ")) {
		char *end;

		e->id = strtoul(line + 4, &end, 10);
		*has_id = end > line + 4 && !*end;
	}
	if (!starts(line, "field:"))
		return 0;
	e->fields = array_grow(e->fields, e->cnt, sizeof(*e->fields));
	line += strlen("field:");
	if (!field_parse(line, &e->fields[e->cnt]))
		return err_set(err, -EBADMSG, "a field of a tracepoint can't be read: '%.60s'",
			line);
	if (e->fields[e->cnt].offset + e->fields[e->cnt].size > e->size)
		e->size = e->fields[e->cnt].offset + e->fields[e->cnt].size;
	e->cnt++;
	return 0;
}

int trace_event_parse(char *text, struct trace_event *ret, struct err *err)
{
	_cleanup_trace_event_ struct trace_event e = { .text = text };
	bool has_id = false;
	char *line;
	int r;

	/* the rest of the file is how the kernel prints it, in C */
	for (line = strsep(&text, "\n"); line && !starts(line, "print fmt:");
		line = strsep(&text, "\n")) {
		r = event_line(&e, line, &has_id, err);
		if (r)
			return r;
	}
	if (!has_id)
		return err_set(err, -EBADMSG, "a tracepoint's format has no number");
	*ret = e;
	e = (struct trace_event) { 0 };
	return 0;
}

void trace_event_done(struct trace_event *e)
{
	free(e->fields);
	free(e->text);
	*e = (struct trace_event) { 0 };
}

const struct trace_field *trace_event_field(const struct trace_event *e, const char *name)
{
	return FIND_WHERE(e->fields, e->cnt, i, !strcmp(e->fields[i].name, name));
}

/* --- the file system ------------------------------------------------------------------ */

static bool is_tracefs(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && fs.f_type == TRACEFS_MAGIC;
}

/* A detached mount, which no other process sees and which disappears with its descriptor. */
static int tracefs_mount(void)
{
	_cleanup_close_ int fs = fsopen("tracefs", FSOPEN_CLOEXEC);
	int fd;

	if (fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
		MOUNT_ATTR_NOEXEC);
	return fd < 0 ? -errno : fd;
}

int tracefs_open(struct err *err)
{
	static const char *const paths[] = {
		"/sys/kernel/tracing",
		"/sys/kernel/debug/tracing",
	};
	int ret;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		_cleanup_close_ int fd = open(paths[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd >= 0 && is_tracefs(fd))
			return TAKE_FD(fd);
		if (fd < 0 && errno == EACCES) {
			err_sys(err, -EACCES, "cannot open '%s'", paths[i]);
			return err_hint(err,
				"only root can read the kernel's tracepoints%s", geteuid() ? "; try with sudo" : "");
		}
	}
	ret = tracefs_mount();
	if (ret >= 0)
		return ret;
	if (ret == -ENODEV)
		return err_set(err, ret, "this kernel has no tracefs (CONFIG_TRACING)");
	err_sys(err, ret, "tracefs is not mounted, and can't be");
	if (ret != -EPERM && ret != -EACCES)
		return ret;
	return err_hint(err,
		"needs CAP_SYS_ADMIN%s, or a tracefs that root mounted: 'mount -t tracefs tracefs %s'",
		caps_advice(), paths[0]);
}

/* A name in tracefs that is no path. */
static bool is_name(const char *name)
{
	return *name && *name != '.' && !strchr(name, '/') && strlen(name) < NAME_MAX;
}

int tracefs_event(int tracefs, const char *category, const char *event,
	struct trace_event *ret, struct err *err)
{
	char path[2 * NAME_MAX + 32];
	_cleanup_close_ int fd = -1;
	char *text;
	size_t len;
	int r;

	if (!is_name(category) || !is_name(event))
		return err_set(err, -ENOENT, "no tracepoint '%s:%s'", category, event);
	snprintf(path, sizeof(path), "events/%s/%s/format", category, event);
	fd = openat(tracefs, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return err_set(err, -ENOENT, "no tracepoint '%s:%s'", category, event);
	if (fd < 0)
		return err_sys(err, -errno, "cannot read tracepoint '%s:%s'", category, event);
	r = file_read(fd, MAX_FORMAT, &text, &len);
	if (r)
		return err_sys(err, r, "cannot read tracepoint '%s:%s'", category, event);
	r = trace_event_parse(text, ret, err);
	return r ? err_wrap(err, "tracepoint '%s:%s'", category, event) : 0;
}

DEFINE_ORDER(compare_names, char *const, strcmp(*x, *y))

static void names_sort(struct trace_names *n)
{
	if (n->cnt)
		qsort(n->names, n->cnt, sizeof(*n->names), compare_names);
}

/* Events without an id are internal to ftrace; perf cannot open them. */
static void category_names(int events, const char *category, struct trace_names *n)
{
	_cleanup_closedir_ DIR *dir = dir_open_at(events, category);
	const struct dirent *e;

	while (dir && (e = readdir(dir))) {
		char path[NAME_MAX + 8];

		if (!is_name(e->d_name) || e->d_type != DT_DIR)
			continue;
		snprintf(path, sizeof(path), "%s/id", e->d_name);
		if (!faccessat(dirfd(dir), path, F_OK, 0))
			*array_add(n->names, n->cnt) = xasprintf("%s:%s", category, e->d_name);
	}
}

int tracefs_names(int tracefs, struct trace_names *ret, struct err *err)
{
	_cleanup_trace_names_ struct trace_names n = { 0 };
	_cleanup_closedir_ DIR *dir = dir_open_at(tracefs, "events");
	const struct dirent *e;

	if (!dir)
		return err_sys(err, -errno, "cannot list tracepoints");
	while ((e = readdir(dir)))
		if (is_name(e->d_name) && e->d_type == DT_DIR)
			category_names(dirfd(dir), e->d_name, &n);
	names_sort(&n);
	*ret = n;
	n = (struct trace_names) { 0 };
	return 0;
}

void trace_names_done(struct trace_names *n)
{
	for (size_t i = 0; i < n->cnt; i++)
		free(n->names[i]);
	free(n->names);
	*n = (struct trace_names) { 0 };
}

/* --- names of system calls, in the order of their numbers ----------------------------------- */

static const char *const syscalls[SYSCALL_NUMBERS] = {
#include "syscalls.inc"
};

static const char *const syscalls_32[SYSCALL_NUMBERS] = {
#include "syscalls32.inc"
};

const char *syscall_name(enum syscall_abi abi, unsigned int number)
{
	if (number >= SYSCALL_NUMBERS)
		return NULL;
	return abi == SYSCALL_32BIT ? syscalls_32[number] : syscalls[number];
}

int syscall_number(const char *name)
{
	for (int i = 0; i < SYSCALL_NUMBERS; i++)
		if (syscalls[i] && !strcmp(syscalls[i], name))
			return i;
	return -1;
}

/* --- The kernel's symbols, as far as they are needed --------------------------------------------- */

/* "ffffffff81000000 T name" or "ffffffffc0000000 t name	[module]". */
static bool parse(const char *line, struct ksym *ret)
{
	unsigned long long addr;
	int words = sscanf(line, "%llx %c %255s [%63[^]]]", &addr, &ret->type, ret->name,
		ret->module);

	if (words < 3)
		return false;
	ret->addr = addr;
	ret->of = words == 3                  ? KSYM_KERNEL
		: !strcmp(ret->module, "bpf") ? KSYM_LOADED
					      : KSYM_MODULE;
	return true;
}

int ksyms_each(enum ksym_of last, int (*each)(const struct ksym *sym, void *userdata),
	void *userdata)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/kallsyms", "re");
	struct ksym sym;
	char line[600];
	int code = 0;

	if (!f)
		return -errno;
	while (!code && fgets(line, sizeof(line), f)) {
		if (!parse(line, &sym))
			continue;
		if (sym.of > last)
			break;
		code = each(&sym, userdata);
	}
	return code;
}

#define BTF_DIR "/sys/kernel/btf"
/* Lines of a list, sorted. */
struct kfuncs {
	struct btf *vmlinux;
	struct btf **modules;
	char **module_names;
	size_t module_cnt;
	bool has_modules;
	struct kfunc *func;
	size_t cnt;
	bool names_read, by_tracefs;
	struct trace_names names;
};

/* --- functions ------------------------------------------------------------------------------- */

static void add_funcs(
	struct kfuncs *k, const struct btf *btf, uint32_t first, const char *module)
{
	uint32_t end = btf__type_cnt(btf);

	for (uint32_t id = first; id < end; id++) {
		const struct btf_type *t = btf__type_by_id(btf, id);

		if (!btf_is_func(t))
			continue;
		*array_add(k->func, k->cnt) =
			(struct kfunc) { btf__name_by_offset(btf, t->name_off), module,
				btf, id };
	}
}

int kfuncs_open(struct kfuncs **ret, struct err *err)
{
	_cleanup_kfuncs_ struct kfuncs *k = xcalloc(1, sizeof(*k));
	int code;

	k->vmlinux = btf__load_vmlinux_btf();
	if (!k->vmlinux) {
		code = -errno;
		if (code == -ENOMEM || code == -EACCES)
			return err_sys(err, code, "cannot read the kernel's BTF");
		return err_set(err, -ENOENT,
			"this kernel has no BTF of its functions (CONFIG_DEBUG_INFO_BTF)");
	}
	add_funcs(k, k->vmlinux, 1, NULL);
	*ret = TAKE_PTR(k);
	return 0;
}

static void add_module(struct kfuncs *k, const char *name)
{
	k->modules = array_grow(k->modules, k->module_cnt, sizeof(*k->modules));
	k->module_names = array_grow(k->module_names, k->module_cnt, sizeof(*k->module_names));
	k->modules[k->module_cnt] = btf__load_module_btf(name, k->vmlinux);
	if (!k->modules[k->module_cnt])
		return;
	k->module_names[k->module_cnt++] = xstrdup(name);
	add_funcs(k, k->modules[k->module_cnt - 1], btf__type_cnt(k->vmlinux),
		k->module_names[k->module_cnt - 1]);
}

void kfuncs_add_modules(struct kfuncs *k)
{
	_cleanup_closedir_ DIR *dir = k->has_modules ? NULL : opendir(BTF_DIR);
	const struct dirent *d;

	k->has_modules = true;
	while (dir && (d = readdir(dir)))
		if (d->d_name[0] != '.' && strcmp(d->d_name, "vmlinux") != 0)
			add_module(k, d->d_name);
}

const struct kfunc *kfuncs_all(const struct kfuncs *k, size_t *ret_cnt)
{
	*ret_cnt = k->cnt;
	return k->func;
}

void kfuncs_free(struct kfuncs *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < k->module_cnt; i++) {
		btf__free(k->modules[i]);
		free(k->module_names[i]);
	}
	free(k->modules);
	free(k->module_names);
	btf__free(k->vmlinux);
	free(k->func);
	trace_names_done(&k->names);
	free(k);
}

/* --- which can be traced --------------------------------------------------------------------- */

/* Names are "vfs_read" or "fuse_open [fuse]", as available_filter_functions has them. */
static void names_of_tracefs(FILE *f, struct trace_names *n)
{
	_cleanup_free_ char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, f) > 0)
		*array_add(n->names, n->cnt) = xstrndup(line, strcspn(line, "\n"));
}

/* Those of code. */
static int name_of_symbol(const struct ksym *sym, void *userdata)
{
	struct trace_names *n = userdata;

	if (strchr("tTwW", sym->type))
		*array_add(n->names, n->cnt) = sym->of == KSYM_KERNEL
			? xstrdup(sym->name)
			: xasprintf("%s [%s]", sym->name, sym->module);
	return 0;
}

static void read_names(struct kfuncs *k)
{
	_cleanup_close_ int tracefs = tracefs_open(NULL);
	int fd = tracefs < 0
		? -1
		: openat(tracefs, "available_filter_functions", O_RDONLY | O_CLOEXEC);
	_cleanup_fclose_ FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (fd >= 0 && !f)
		close(fd);
	k->names_read = true;
	k->by_tracefs = f;
	if (f)
		names_of_tracefs(f, &k->names);
	else if (ksyms_each(KSYM_MODULE, name_of_symbol, &k->names))
		trace_names_done(&k->names);
	names_sort(&k->names);
}

static size_t names_count(const struct trace_names *n, const char *name)
{
	size_t at = FIRST_WHERE(n->cnt, i, strcmp(n->names[i], name) >= 0), cnt = 0;

	while (at + cnt < n->cnt && !strcmp(n->names[at + cnt], name))
		cnt++;
	return cnt;
}

/*
 * True for functions that BPF programs call, or that the kernel runs to call a BPF program. A probe
 * there would miss part of these calls (recursion protection) and count the others.
 */
static bool is_our_own(const char *name)
{
	static const char *const globs[] = { "bpf_*", "__bpf_*", "htab_*", "array_map_*",
		"__htab_*", "ringbuf_*", "*ktime_get*fast_ns", "get_jiffies_64",
		"copy_from_*_nofault", "strncpy_from_*_nofault", "migrate_*able",
		"__rcu_read_*lock", "rcu_read_unlock_*", "preempt_count_*", "fprobe_*",
		"ftrace_*", "rethook_*", "kprobe_*", "kretprobe_*", "trace_call_bpf",
		"perf_trace_*", "perf_tp_*", "uprobe_*", "__cgroup_bpf_*",
		"*percpu_freelist*", "task_under_cgroup*", "irq_work_queue*" };

	return ANY_WHERE(ARRAY_SIZE(globs), i, pattern_glob(globs[i], name));
}

const char *kfuncs_refuse(struct kfuncs *k, const struct kfunc *f)
{
	char line[256];
	size_t cnt;

	if (is_our_own(f->name))
		return "BPF programs run in it or call it";
	if (!k->names_read)
		read_names(k);
	if (!k->names.cnt)
		return NULL;
	snprintf(line, sizeof(line), "%s%s%s%s", f->name, f->module ? " [" : "",
		f->module ? f->module : "", f->module ? "]" : "");
	cnt = names_count(&k->names, line);
	if (cnt > 1)
		return "several functions of the kernel have this name";
	if (cnt)
		return NULL;
	return k->by_tracefs
		? "the kernel can't trace it: it is not in available_filter_functions"
		: "the kernel has only parts of it, or has it inlined everywhere";
}

/* --- how -------------------------------------------------------------------------------------- */

static int is_named(const struct ksym *sym, void *name)
{
	return !strcmp(sym->name, name);
}

/* True if /proc/kallsyms has @symbol or cannot be read. */
static bool kernel_has(char *symbol)
{
	return ksyms_each(KSYM_KERNEL, is_named, symbol) != 0;
}

/*
 * Tries to load an fentry program that calls bpf_get_attach_cookie(), which the BPF programs need.
 */
static int try_fentry(void)
{
	int id = libbpf_find_vmlinux_btf_id("vfs_read", BPF_TRACE_FENTRY);
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_FENTRY,
		.attach_btf_id = id > 0 ? id : 0);
	_cleanup_close_ int prog = -1;

	if (id <= 0)
		return -ENOENT;
	prog = link_load_trivial(BPF_PROG_TYPE_TRACING, BPF_FUNC_get_attach_cookie, &opts);
	return prog < 0 ? prog : 0;
}

int kfunc_how_probe(enum kfunc_how how)
{
	bool may = (caps_effective() & CAPS_ATTACH) == CAPS_ATTACH;

	switch (how) {
	case KFUNC_FENTRY:
		if (!kernel_has("register_ftrace_direct"))
			return -EOPNOTSUPP;
		return may ? try_fentry() : 0;
	case KFUNC_MULTI:
		return kernel_has("register_fprobe_ips") ? 0 : -EOPNOTSUPP;
	case KFUNC_KPROBE:
		return link_kprobe_type() < 0 ? -EOPNOTSUPP : 0;
	default:
		return -EINVAL;
	}
}

const char *kfunc_lacking(char *buf, size_t size)
{
	static const char *const names[] = {
		[KFUNC_FENTRY] = "fentry (CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS)",
		[KFUNC_MULTI] = "kprobe.multi (CONFIG_FPROBE)",
		[KFUNC_KPROBE] = "kprobes (CONFIG_KPROBE_EVENTS)",
	};
	size_t len = 0;

	buf[0] = '\0';
	for (int how = 0; how < KFUNC_CNT; how++)
		if (kfunc_how_probe(how) && len < size)
			len += snprintf(buf + len, size - len, "%s%s", len ? ", no " : "",
				names[how]);
	return buf;
}

int kfunc_btf_fd(const char *module)
{
	__u32 id = 0;
	int code = 0;

	while (module && !code) {
		_cleanup_close_ int fd = -1;
		char name[64] = "";
		struct bpf_btf_info info = { .name = (uintptr_t)name,
			.name_len = sizeof(name) };
		__u32 len = sizeof(info);

		code = bpf_btf_get_next_id(id, &id) ? -errno : 0;
		fd = code ? code : bpf_btf_get_fd_by_id(id);
		if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &len) &&
			info.kernel_btf && !strcmp(name, module))
			return TAKE_FD(fd);
	}
	return code;
}

/* --- functions that BPF programs call ------------------------------------------------------- */

/*
 * Old kernels reject a program that names a function that they lack, even in code that never runs:
 * programs name a helper that does not exist, which is replaced before they are loaded.
 */
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
