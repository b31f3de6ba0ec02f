// SPDX-License-Identifier: BSD-2-Clause
// Types of arguments and results, and the format of their values.
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/memfd.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/util.h"
#include "group/notation.h"
#include "group/records.h"
#include "group/types.h"

/* Names of flags, modes, signals and commands. Argument names are those of the kernel's tracefs. */

enum style {
	FLAGS,  /* the names whose bits are set */
	CHOICE, /* one name */
	OCTAL,
	SIGNAL,
};

struct name {
	uint64_t mask, value; /* the name applies if the bits of the mask have this value */
	const char *name;
};

struct notation {
	enum style style;
	const struct name *names;
	size_t cnt;
};

#define FLAG(f)     { f, f, #f }
#define ONE_OF(m, f) { m, f, #f }
#define IS(f)       { UINT32_MAX, (uint32_t)(f), #f }

/* Names with several bits come before names of some of these bits. */
static const struct name open_flags[] = {
	ONE_OF(O_ACCMODE, O_RDONLY), ONE_OF(O_ACCMODE, O_WRONLY), ONE_OF(O_ACCMODE, O_RDWR),
	FLAG(O_CREAT), FLAG(O_EXCL), FLAG(O_NOCTTY), FLAG(O_TRUNC), FLAG(O_APPEND), FLAG(O_NONBLOCK),
	{ __O_TMPFILE | O_DIRECTORY, __O_TMPFILE | O_DIRECTORY, "O_TMPFILE" },
	{ O_SYNC, O_SYNC, "O_SYNC" }, FLAG(O_DSYNC), FLAG(O_ASYNC), FLAG(O_DIRECT),
	{ 0100000, 0100000, "O_LARGEFILE" }, /* 0 in the headers of 64-bit machines */
	FLAG(O_DIRECTORY), FLAG(O_NOFOLLOW), FLAG(O_NOATIME), FLAG(O_CLOEXEC), FLAG(O_PATH),
};
static const struct name fd_flags[] = { FLAG(O_CLOEXEC), FLAG(O_NONBLOCK), FLAG(O_DIRECT) };
static const struct name at_flags[] = {
	FLAG(AT_SYMLINK_NOFOLLOW), FLAG(AT_SYMLINK_FOLLOW), FLAG(AT_NO_AUTOMOUNT), FLAG(AT_EMPTY_PATH),
	ONE_OF(0x6000, AT_STATX_FORCE_SYNC), ONE_OF(0x6000, AT_STATX_DONT_SYNC),
};
static const struct name access_flags[] = { FLAG(AT_EACCESS), FLAG(AT_SYMLINK_NOFOLLOW),
	FLAG(AT_EMPTY_PATH) };
static const struct name unlink_flags[] = { FLAG(AT_REMOVEDIR) };
static const struct name access_modes[] = { { UINT32_MAX, F_OK, "F_OK" }, FLAG(R_OK), FLAG(W_OK),
	FLAG(X_OK) };
static const struct name statx_masks[] = { FLAG(STATX_ALL), FLAG(STATX_BASIC_STATS),
	FLAG(STATX_TYPE), FLAG(STATX_MODE), FLAG(STATX_NLINK), FLAG(STATX_UID), FLAG(STATX_GID),
	FLAG(STATX_ATIME), FLAG(STATX_MTIME), FLAG(STATX_CTIME), FLAG(STATX_INO), FLAG(STATX_SIZE),
	FLAG(STATX_BLOCKS), FLAG(STATX_BTIME) };
static const struct name rename_flags[] = { FLAG(RENAME_NOREPLACE), FLAG(RENAME_EXCHANGE),
	FLAG(RENAME_WHITEOUT) };
static const struct name prot_flags[] = { { UINT32_MAX, PROT_NONE, "PROT_NONE" }, FLAG(PROT_READ),
	FLAG(PROT_WRITE), FLAG(PROT_EXEC), FLAG(PROT_GROWSDOWN), FLAG(PROT_GROWSUP) };
static const struct name map_flags[] = {
	ONE_OF(MAP_TYPE, MAP_SHARED), ONE_OF(MAP_TYPE, MAP_PRIVATE),
	ONE_OF(MAP_TYPE, MAP_SHARED_VALIDATE), FLAG(MAP_FIXED), FLAG(MAP_ANONYMOUS), FLAG(MAP_GROWSDOWN),
	FLAG(MAP_DENYWRITE), FLAG(MAP_EXECUTABLE), FLAG(MAP_LOCKED), FLAG(MAP_NORESERVE),
	FLAG(MAP_POPULATE), FLAG(MAP_NONBLOCK), FLAG(MAP_STACK), FLAG(MAP_HUGETLB), FLAG(MAP_SYNC),
	FLAG(MAP_FIXED_NOREPLACE) };
static const struct name advices[] = { IS(MADV_NORMAL), IS(MADV_RANDOM), IS(MADV_SEQUENTIAL),
	IS(MADV_WILLNEED), IS(MADV_DONTNEED), IS(MADV_FREE), IS(MADV_REMOVE), IS(MADV_DONTFORK),
	IS(MADV_DOFORK), IS(MADV_MERGEABLE), IS(MADV_UNMERGEABLE), IS(MADV_HUGEPAGE),
	IS(MADV_NOHUGEPAGE), IS(MADV_DONTDUMP), IS(MADV_DODUMP), IS(MADV_COLD), IS(MADV_PAGEOUT) };
static const struct name families[] = { IS(AF_UNSPEC), IS(AF_UNIX), IS(AF_INET), IS(AF_INET6),
	IS(AF_NETLINK), IS(AF_PACKET), IS(AF_VSOCK), IS(AF_ALG), IS(AF_BLUETOOTH) };
static const struct name socket_types[] = { ONE_OF(15, SOCK_STREAM), ONE_OF(15, SOCK_DGRAM),
	ONE_OF(15, SOCK_RAW), ONE_OF(15, SOCK_RDM), ONE_OF(15, SOCK_SEQPACKET), FLAG(SOCK_CLOEXEC),
	FLAG(SOCK_NONBLOCK) };
static const struct name message_flags[] = { FLAG(MSG_OOB), FLAG(MSG_PEEK), FLAG(MSG_DONTROUTE),
	FLAG(MSG_TRUNC), FLAG(MSG_DONTWAIT), FLAG(MSG_WAITALL), FLAG(MSG_NOSIGNAL), FLAG(MSG_MORE),
	FLAG(MSG_ERRQUEUE), FLAG(MSG_CMSG_CLOEXEC), FLAG(MSG_ZEROCOPY) };
static const struct name fcntl_commands[] = { IS(F_DUPFD), IS(F_GETFD), IS(F_SETFD), IS(F_GETFL),
	IS(F_SETFL), IS(F_GETLK), IS(F_SETLK), IS(F_SETLKW), IS(F_SETOWN), IS(F_GETOWN),
	IS(F_SETLEASE), IS(F_GETLEASE), IS(F_DUPFD_CLOEXEC), IS(F_SETPIPE_SZ), IS(F_GETPIPE_SZ),
	IS(F_ADD_SEALS), IS(F_GET_SEALS), IS(F_OFD_GETLK), IS(F_OFD_SETLK), IS(F_OFD_SETLKW) };
static const struct name whences[] = { IS(SEEK_SET), IS(SEEK_CUR), IS(SEEK_END), IS(SEEK_DATA),
	IS(SEEK_HOLE) };
static const struct name lock_flags[] = { ONE_OF(15, LOCK_SH), ONE_OF(15, LOCK_EX),
	ONE_OF(15, LOCK_UN), { 15, LOCK_SH | LOCK_NB, "LOCK_SH|LOCK_NB" }, { 15, LOCK_EX | LOCK_NB, "LOCK_EX|LOCK_NB" } };
static const struct name clone_flags[] = { FLAG(CLONE_VM), FLAG(CLONE_FS), FLAG(CLONE_FILES),
	FLAG(CLONE_SIGHAND), FLAG(CLONE_PIDFD), FLAG(CLONE_PTRACE), FLAG(CLONE_VFORK),
	FLAG(CLONE_PARENT), FLAG(CLONE_THREAD), FLAG(CLONE_NEWNS), FLAG(CLONE_SYSVSEM),
	FLAG(CLONE_SETTLS), FLAG(CLONE_PARENT_SETTID), FLAG(CLONE_CHILD_CLEARTID), FLAG(CLONE_DETACHED),
	FLAG(CLONE_UNTRACED), FLAG(CLONE_CHILD_SETTID), FLAG(CLONE_NEWCGROUP), FLAG(CLONE_NEWUTS),
	FLAG(CLONE_NEWIPC), FLAG(CLONE_NEWUSER), FLAG(CLONE_NEWPID), FLAG(CLONE_NEWNET), FLAG(CLONE_IO),
	ONE_OF(255, SIGCHLD) };
static const struct name futex_ops[] = { ONE_OF(127, FUTEX_WAIT), ONE_OF(127, FUTEX_WAKE),
	ONE_OF(127, FUTEX_REQUEUE), ONE_OF(127, FUTEX_CMP_REQUEUE), ONE_OF(127, FUTEX_WAKE_OP),
	ONE_OF(127, FUTEX_LOCK_PI), ONE_OF(127, FUTEX_UNLOCK_PI), ONE_OF(127, FUTEX_TRYLOCK_PI),
	ONE_OF(127, FUTEX_WAIT_BITSET), ONE_OF(127, FUTEX_WAKE_BITSET),
	ONE_OF(127, FUTEX_WAIT_REQUEUE_PI), ONE_OF(127, FUTEX_CMP_REQUEUE_PI),
	ONE_OF(127, FUTEX_LOCK_PI2), FLAG(FUTEX_PRIVATE_FLAG), FLAG(FUTEX_CLOCK_REALTIME) };
static const struct name epoll_ops[] = { IS(EPOLL_CTL_ADD), IS(EPOLL_CTL_DEL), IS(EPOLL_CTL_MOD) };
static const struct name clocks[] = { IS(CLOCK_REALTIME), IS(CLOCK_MONOTONIC),
	IS(CLOCK_PROCESS_CPUTIME_ID), IS(CLOCK_THREAD_CPUTIME_ID), IS(CLOCK_MONOTONIC_RAW),
	IS(CLOCK_REALTIME_COARSE), IS(CLOCK_MONOTONIC_COARSE), IS(CLOCK_BOOTTIME),
	IS(CLOCK_REALTIME_ALARM), IS(CLOCK_BOOTTIME_ALARM), IS(CLOCK_TAI) };
static const struct name timer_flags[] = { FLAG(TIMER_ABSTIME) };
static const struct name wait_options[] = { FLAG(WNOHANG), FLAG(WUNTRACED), FLAG(WEXITED),
	FLAG(WCONTINUED), FLAG(WNOWAIT), FLAG(__WNOTHREAD), FLAG(__WALL), FLAG(__WCLONE) };
static const struct name random_flags[] = { FLAG(GRND_NONBLOCK), FLAG(GRND_RANDOM) };
static const struct name memfd_flags[] = { FLAG(MFD_CLOEXEC), FLAG(MFD_ALLOW_SEALING),
	FLAG(MFD_HUGETLB) };

/* The first rule that fits; calls are separated by blanks, "*" is all system calls. */
static const struct {
	const char *calls, *arg;
	struct notation notation;
} rules[] = {
#define NAMES(style, names) { style, names, ARRAY_SIZE(names) }
	{ "open openat open_by_handle_at", "flags", NAMES(FLAGS, open_flags) },
	{ "open openat creat mkdir mkdirat mknod mknodat chmod fchmod fchmodat fchmodat2 mq_open", "mode",
		{ OCTAL, NULL, 0 } },
	{ "umask", "mask", { OCTAL, NULL, 0 } },
	{ "access faccessat faccessat2", "mode", NAMES(FLAGS, access_modes) },
	{ "faccessat2", "flags", NAMES(FLAGS, access_flags) },
	{ "newfstatat", "flag", NAMES(FLAGS, at_flags) },
	{ "statx linkat fchmodat2 execveat name_to_handle_at utimensat", "flags",
		NAMES(FLAGS, at_flags) },
	{ "fchownat linkat name_to_handle_at", "flag", NAMES(FLAGS, at_flags) },
	{ "statx", "mask", NAMES(FLAGS, statx_masks) },
	{ "unlinkat", "flag", NAMES(FLAGS, unlink_flags) },
	{ "renameat2", "flags", NAMES(FLAGS, rename_flags) },
	{ "pipe2 dup3 accept4 epoll_create1 eventfd2 inotify_init1 signalfd4 timerfd_create", "flags",
		NAMES(FLAGS, fd_flags) },
	{ "mmap mprotect pkey_mprotect", "prot", NAMES(FLAGS, prot_flags) },
	{ "mmap", "flags", NAMES(FLAGS, map_flags) },
	{ "madvise", "behavior", NAMES(CHOICE, advices) },
	{ "socket socketpair", "family", NAMES(CHOICE, families) },
	{ "socket socketpair", "type", NAMES(FLAGS, socket_types) },
	{ "sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg", "flags", NAMES(FLAGS, message_flags) },
	{ "fcntl", "cmd", NAMES(CHOICE, fcntl_commands) },
	{ "lseek", "whence", NAMES(CHOICE, whences) },
	{ "flock", "cmd", NAMES(FLAGS, lock_flags) },
	{ "clone", "clone_flags", NAMES(FLAGS, clone_flags) },
	{ "unshare", "unshare_flags", NAMES(FLAGS, clone_flags) },
	{ "setns", "flags", NAMES(FLAGS, clone_flags) },
	{ "futex", "op", NAMES(FLAGS, futex_ops) },
	{ "epoll_ctl", "op", NAMES(CHOICE, epoll_ops) },
	{ "clock_gettime clock_settime clock_getres clock_nanosleep timer_create", "which_clock",
		NAMES(CHOICE, clocks) },
	{ "timerfd_create", "clockid", NAMES(CHOICE, clocks) },
	{ "clock_nanosleep", "flags", NAMES(FLAGS, timer_flags) },
	{ "wait4 waitid", "options", NAMES(FLAGS, wait_options) },
	{ "getrandom", "flags", NAMES(FLAGS, random_flags) },
	{ "memfd_create", "flags", NAMES(FLAGS, memfd_flags) },
	{ "kill tkill tgkill rt_sigaction rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal "
	  "signal:signal_deliver signal:signal_generate",
		"sig", { SIGNAL, NULL, 0 } },
};

static bool lists(const char *words, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = words; (p = strstr(p, word)); p += len)
		if ((p == words || p[-1] == ' ') && (p[len] == ' ' || !p[len]))
			return true;
	return false;
}

const struct notation *notation_of(const char *call, const char *arg)
{
	if (!strncmp(call, "32:", 3))
		return NULL; /* values of other headers */
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (!strcmp(rules[i].arg, arg) && lists(rules[i].calls, call))
			return &rules[i].notation;
	return NULL;
}

static size_t append(char *buf, size_t len, const char *text)
{
	int more = snprintf(buf + len, NOTATION_LEN - len, "%s%s", len ? "|" : "", text);

	return more > 0 && len + more < NOTATION_LEN ? len + more : NOTATION_LEN - 1;
}

static const char *flags_text(const struct notation *n, uint64_t value, char *buf)
{
	uint64_t left = value, known = 0;
	size_t len = 0;
	char hex[24];

	for (size_t i = 0; i < n->cnt; i++) {
		const struct name *name = &n->names[i];

		/* A name without bits is the value 0, or the first of a field. */
		if ((value & name->mask) != name->value || known & name->mask ||
			(name->mask == UINT32_MAX && value))
			continue;
		len = append(buf, len, name->name);
		known |= name->mask;
		left &= ~name->mask;
	}
	if (left) {
		snprintf(hex, sizeof(hex), "0x%llx", (unsigned long long)left);
		len = append(buf, len, hex);
	}
	return len ? buf : NULL;
}

static const char *signal_name(uint64_t value, char buf[NOTATION_LEN])
{
	const char *name = value < NSIG ? sigabbrev_np((int)value) : NULL;
	int rt = (int)value - SIGRTMIN;

	if (name)
		snprintf(buf, NOTATION_LEN, "SIG%s", name);
	else if (value < NSIG && rt >= 0)
		snprintf(buf, NOTATION_LEN, rt ? "SIGRTMIN+%d" : "SIGRTMIN", rt);
	else
		return NULL;
	return buf;
}

const char *signal_text(unsigned int signal, char buf[NOTATION_LEN])
{
	if (!signal_name(signal, buf))
		snprintf(buf, NOTATION_LEN, "signal %u", signal);
	return buf;
}

const char *notation_text(const struct notation *n, uint64_t value, char buf[NOTATION_LEN])
{
	value &= UINT32_MAX;
	*buf = '\0';
	switch (n->style) {
	case FLAGS:
		return flags_text(n, value, buf);
	case CHOICE:
		for (size_t i = 0; i < n->cnt; i++)
			if (n->names[i].value == value)
				return n->names[i].name;
		return NULL;
	case OCTAL:
		snprintf(buf, NOTATION_LEN, value ? "0%llo" : "0", (unsigned long long)value);
		return buf;
	case SIGNAL:
		return signal_name(value, buf);
	}
	return NULL;
}

/* --- writing and reading the types of arguments and results -------------------------------- */

_Static_assert(FSN_STRINGS == 2, "as many as struct types_kept has");

/* --- writing --------------------------------------------------------------------------------- */

/* The names of one type's values, held once however many functions have it. */
struct named_type {
	const struct preset_type *type;
	uint32_t first;
};

static void add_name(struct type_records *r, struct strtab *text, const struct preset_code *c)
{
	struct fsn_name *name;

	name = array_add(r->names, r->name_cnt);
	memset(name, 0, sizeof(*name));
	name->value = c->code;
	snprintf(name->label, sizeof(name->label), "%.*s", FSN_TYPE_LABEL_LEN - 1, c->name);
	name->name = strtab_add(text, c->name);
}

/* Returns the number of the first. */
static uint32_t add_names(
	struct type_records *r, struct strtab *text, const struct preset_type *type)
{
	uint32_t first = r->name_cnt;

	for (size_t i = 0; i < r->named_cnt; i++)
		if (r->named[i].type == type)
			return r->named[i].first;
	*array_add(r->named, r->named_cnt) = (struct named_type){ type, first };
	for (size_t i = 0; i < type->code_cnt; i++)
		add_name(r, text, &type->codes[i]);
	return first;
}

/* A result is an argument without a place, and without a name. */
static void add_type(struct type_records *r, struct strtab *text, const struct preset_arg *a)
{
	struct fsn_type *type;

	type = array_add(r->types, r->type_cnt);
	*type = (struct fsn_type){
		.kind = a->value.kind,
		.size = a->value.size,
		.place = a->place.where,
		.index = a->place.index,
		.words = a->place.words,
		.is_signed = a->value.is_signed,
		.by_ref = a->place.by_ref,
		.member_size = a->member_size,
	};
	snprintf(type->label, sizeof(type->label), "%.*s", FSN_TYPE_LABEL_LEN - 1, a->text);
	type->text = strtab_add(text, a->text);
	type->name = strtab_add(text, a->name);
	if (!a->value.type || !a->value.type->code_cnt)
		return;
	type->name_cnt = a->value.type->code_cnt;
	type->names = add_names(r, text, a->value.type);
}

void type_records_add(struct type_records *r, struct strtab *text, const struct preset_func *pf,
	struct fsn_func *func)
{
	const struct preset_arg ret = { .text = pf->ret_text, .value = pf->ret };

	if (pf->ret_text) {
		func->ret = r->type_cnt + 1;
		add_type(r, text, &ret);
	}
	if (!pf->has_args)
		return;
	func->args = r->type_cnt + 1;
	func->arg_cnt = pf->arg_cnt;
	for (size_t i = 0; i < pf->arg_cnt; i++)
		add_type(r, text, &pf->args[i]);
}

void type_records_done(struct type_records *r)
{
	free(r->types);
	free(r->names);
	free(r->named);
}

struct types_kept types_kept(const struct preset_arg *args, size_t cnt)
{
	struct types_kept kept = { .strings = { -1, -1 } };
	size_t strings = 0;

	for (size_t i = 0; i < cnt; i++) {
		const struct preset_place *p = &args[i].place;
		uint32_t end = p->where == PLACE_STACK ? p->index + p->words : 0;

		if (end > FSN_STACK_WORDS)
			end = FSN_STACK_WORDS;
		if (end > kept.stack_cnt)
			kept.stack_cnt = end;
		if (args[i].value.kind == TYPE_STRING && p->where != PLACE_NOWHERE &&
			p->index < (p->where == PLACE_STACK ? FSN_STACK_WORDS : FSN_ARGS) &&
			strings < ARRAY_SIZE(kept.strings))
			kept.strings[strings++] = i;
	}
	return kept;
}

/* --- reading --------------------------------------------------------------------------------- */

/* Decoded records; each has the same index as its record. */
struct types {
	struct func_types *funcs;
	struct preset_arg *args;
	struct type_codes *codes;
	const struct type_codes **codes_of; /* NULL for types without names */
	const struct notation **notation_of; /* the same */
	struct type_code *names;
};

/* Returns NULL if memory is exhausted. The counts can be huge if another user owns the group. */
static struct types *types_alloc(size_t fn_cnt, size_t type_cnt, size_t name_cnt)
{
	_cleanup_types_ struct types *t = xcalloc(1, sizeof(*t));

	t->funcs = calloc(fn_cnt + 1, sizeof(*t->funcs));
	t->args = calloc(type_cnt + 1, sizeof(*t->args));
	t->codes = calloc(type_cnt + 1, sizeof(*t->codes));
	t->codes_of = calloc(type_cnt + 1, sizeof(*t->codes_of));
	t->notation_of = calloc(type_cnt + 1, sizeof(*t->notation_of));
	t->names = calloc(name_cnt + 1, sizeof(*t->names));
	if (!t->funcs || !t->args || !t->codes || !t->codes_of || !t->notation_of || !t->names)
		return NULL;
	return TAKE_PTR(t);
}

/* True if the range of @cnt elements at @first is within @most elements. */
static bool fits(uint32_t first, uint32_t cnt, size_t most)
{
	return first <= most && cnt <= most - first;
}

static bool members_fit(const struct fsn_type *type)
{
	unsigned int size = type->member_size;

	if (!size)
		return true;
	return (size == 1 || size == 2 || size == 4 || size == 8) &&
		type->kind == TYPE_STRUCT && type->size % size == 0;
}

/* Reads type @i of @t. Another user's group is untrusted, so everything is checked. */
static int take_type(struct types *t, const struct group *g, uint32_t i,
	const struct fsn_type *type, size_t name_cnt)
{
	const struct type_code *names;

	if (type->kind > TYPE_CLASS || type->place > PLACE_GO || !members_fit(type) ||
		!fits(type->names, type->name_cnt, name_cnt))
		return -EPROTO;
	t->args[i] = (struct preset_arg){
		.text = group_text(g, type->text),
		.name = group_text(g, type->name),
		.value = { .kind = type->kind, .size = type->size, .is_signed = type->is_signed },
		.place = { type->place, type->index, type->words, type->by_ref },
		.member_size = type->member_size,
	};
	if (!type->name_cnt)
		return 0;
	names = &t->names[type->names];
	for (uint32_t k = 1; k < type->name_cnt; k++)
		if (names[k].code <= names[k - 1].code)
			return -EPROTO;
	t->codes[i] = (struct type_codes){ names, type->name_cnt };
	t->codes_of[i] = &t->codes[i];
	return 0;
}

/* Notations of arguments of @event, which is not in a file: a system call or a tracepoint. */
static void take_notations(struct types *t, const char *event, const struct fsn_func *func)
{
	for (uint32_t i = func->args - 1; i < func->args - 1 + func->arg_cnt; i++)
		if (t->args[i].value.kind == TYPE_INT || t->args[i].value.kind == TYPE_UNKNOWN)
			t->notation_of[i] = notation_of(event, t->args[i].name);
}

static int take_func(struct types *t, const struct group *g, const struct fsn_func *func,
	size_t type_cnt, struct func_types *f)
{
	f->kept = types_kept(NULL, 0);
	f->is_variadic = func->variadic;
	if (func->ret > type_cnt ||
		(func->args && !fits(func->args - 1, func->arg_cnt, type_cnt)))
		return -EPROTO;
	if (func->ret) {
		f->has_ret = true;
		f->ret = t->args[func->ret - 1].value;
		f->ret_text = t->args[func->ret - 1].text;
		f->ret_codes = t->codes_of[func->ret - 1];
	}
	if (!func->args)
		return 0;
	f->has_args = true;
	f->args = &t->args[func->args - 1];
	f->arg_codes = &t->codes_of[func->args - 1];
	f->arg_notations = &t->notation_of[func->args - 1];
	if (!target_kind(func->kind)->in_files)
		take_notations(t, group_text(g, func->symbol), func);
	f->arg_cnt = func->arg_cnt;
	f->kept = types_kept(f->args, f->arg_cnt);
	return 0;
}

int types_make(const struct group *g, const struct fsn_type *types, const struct fsn_name *names,
	struct types **ret_types)
{
	_cleanup_types_ struct types *t =
		types_alloc(g->meta.fn_cnt, g->meta.type_cnt, g->meta.name_cnt);
	int code = t ? 0 : -ENOMEM;

	for (uint32_t i = 0; !code && i < g->meta.name_cnt; i++)
		t->names[i] = (struct type_code){ names[i].value, group_text(g, names[i].name) };
	for (uint32_t i = 0; !code && i < g->meta.type_cnt; i++)
		code = take_type(t, g, i, &types[i], g->meta.name_cnt);
	for (uint32_t i = 0; !code && i < g->meta.fn_cnt; i++)
		code = take_func(t, g, &g->funcs[i], g->meta.type_cnt, &t->funcs[i]);
	if (!code)
		*ret_types = TAKE_PTR(t);
	return code;
}

int types_read(const struct group *g, struct types **ret_types, struct err *err)
{
	_cleanup_free_ struct fsn_type *types = NULL;
	_cleanup_free_ struct fsn_name *names = NULL;
	int code;

	/* For readers without access to these maps the number of entries is 0. */
	if ((g->meta.type_cnt > group_entries(g, MAPID_TYPES) && group_fd(g, MAPID_TYPES) >= 0) ||
		(g->meta.name_cnt > group_entries(g, MAPID_NAMES) && group_fd(g, MAPID_NAMES) >= 0))
		return err_set(err, -EPROTO, "group '%s' is damaged: its counts", g->name);
	types = calloc((size_t)g->meta.type_cnt + 1, sizeof(*types));
	names = calloc((size_t)g->meta.name_cnt + 1, sizeof(*names));
	code = types && names ? 0 : -ENOMEM;
	if (!code)
		code = map_read_fixed(
			group_fd(g, MAPID_TYPES), 0, g->meta.type_cnt, sizeof(*types), types);
	if (!code)
		code = map_read_fixed(
			group_fd(g, MAPID_NAMES), 0, g->meta.name_cnt, sizeof(*names), names);
	if (!code)
		code = types_make(g, types, names, ret_types);
	return code ? err_sys(err, code, "cannot read types of group '%s'", g->name) : 0;
}

void types_free(struct types *t)
{
	if (!t)
		return;
	free(t->funcs);
	free(t->args);
	free(t->codes);
	free(t->codes_of);
	free(t->notation_of);
	free(t->names);
	free(t);
}

const struct func_types *types_of(const struct types *t, uint32_t fn)
{
	return &t->funcs[fn];
}

struct preset_func types_declared(const struct func_types *f)
{
	return (struct preset_func) {
		.ret_text = f->ret_text,
		.ret = f->ret,
		.args = f->args,
		.arg_cnt = f->arg_cnt,
		.has_args = f->has_args,
		.is_variadic = f->is_variadic,
	};
}

const unsigned long long *call_arg_at(const struct func_types *f, size_t i,
	const struct call *c, const struct fsn_more *more, unsigned int *ret_cnt)
{
	const struct preset_place *p = &f->args[i].place;
	bool stack = p->where == PLACE_STACK;
	const unsigned long long *from = !stack ? c->args.arg
		: more                          ? more->stack
						: NULL;
	uint32_t most = stack ? FSN_STACK_WORDS : FSN_ARGS;

	if (p->where == PLACE_NOWHERE || !from || !p->words || p->index >= most ||
		p->words > most - p->index)
		return NULL;
	*ret_cnt = p->words;
	return from + p->index;
}

static bool is_size(const struct func_types *f, size_t i)
{
	return i < f->arg_cnt && f->args[i].value.kind == TYPE_INT &&
		f->args[i].value.size == sizeof(uint64_t) &&
		!strncmp(f->args[i].text, "size_t", strlen("size_t"));
}

/* A Go string has its length in the second word, and no terminating zero byte. */
static bool is_go_string(const struct func_types *f, size_t i)
{
	return f->args[i].place.where == PLACE_GO && f->args[i].place.words == 2;
}

/* Maximum length of the text of argument @i in bytes, from the size that is passed with it. */
static uint64_t text_bound(const struct func_types *f, size_t i, const struct call *c,
	const struct fsn_more *more)
{
	const unsigned long long *count;
	unsigned int cnt;

	if (is_go_string(f, i)) {
		count = call_arg_at(f, i, c, more, &cnt);
		return count ? count[1] : UINT64_MAX;
	}
	if (!is_size(f, i + 1) || is_size(f, i + 2))
		return UINT64_MAX;
	count = call_arg_at(f, i + 1, c, more, &cnt);
	return count ? *count : UINT64_MAX;
}

bool call_arg_number(const struct func_types *t, unsigned int arg, const struct call *call,
	const struct fsn_more *more, uint64_t *ret_n)
{
	const unsigned long long *at;
	unsigned int cnt;

	if (!arg || arg > t->arg_cnt)
		return false;
	at = call_arg_at(t, arg - 1, call, more, &cnt);
	if (at)
		*ret_n = (uint64_t)preset_value_int(&t->args[arg - 1].value, *at);
	return at;
}

const char *call_arg_string(const struct func_types *f, size_t i, const struct call *c,
	const struct fsn_more *more, size_t *ret_len, bool *ret_cut)
{
	size_t room = more ? more->room : 0, len;
	uint64_t bound = text_bound(f, i, c, more);
	const char *str = more ? more->str : NULL;

	*ret_len = 0;
	*ret_cut = false;
	if (!bound && is_go_string(f, i))
		return "";
	if (room < 2 || room > FSN_STR_WIDE + 1 || (f->kept.strings[0] != (int)i && f->kept.strings[1] != (int)i))
		return NULL;
	if (f->kept.strings[1] == (int)i)
		str += FSN_STR_NEXT(room);
	len = strnlen(str, room);
	if (len == room || (!len && (unsigned char)str[1] == 0xff))
		return NULL;
	*ret_cut = len < bound && (len == room - 1 || is_go_string(f, i));
	*ret_len = len < bound ? len : bound;
	return str;
}

DEFINE_ORDER(compare_codes, struct type_code, RISING(code))

const char *arg_name(const struct func_types *f, size_t i, int64_t word, char buf[NOTATION_LEN])
{
	const struct type_code *code = type_code_find(f->arg_codes[i], word);

	if (code)
		return code->name;
	return f->arg_notations && f->arg_notations[i] ? notation_text(f->arg_notations[i], (uint64_t)word, buf) : NULL;
}

const struct type_code *type_code_find(const struct type_codes *codes, int64_t code)
{
	const struct type_code key = { .code = code };

	if (!codes || !codes->cnt)
		return NULL;
	return bsearch(
		&key, codes->code, codes->cnt, sizeof(*codes->code), compare_codes);
}
