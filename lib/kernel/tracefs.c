// SPDX-License-Identifier: BSD-2-Clause
// Finds or mounts tracefs, lists its events, and reads their format files.
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/file.h"
#include "kernel/tracefs.h"
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
	for (size_t i = 0; i < e->cnt; i++)
		if (!strcmp(e->fields[i].name, name))
			return &e->fields[i];
	return NULL;
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

static void names_add(struct trace_names *n, const char *category, const char *event)
{
	n->names = array_grow(n->names, n->cnt, sizeof(*n->names));
	n->names[n->cnt] = xasprintf("%s:%s", category, event);
	n->cnt++;
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
			names_add(n, category, e->d_name);
	}
}

DEFINE_ORDER(name_compare, char *const, strcmp(*x, *y))

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
	if (n.cnt)
		qsort(n.names, n.cnt, sizeof(*n.names), name_compare);
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

static const char *const names[SYSCALL_NUMBERS] = {
#include "syscalls.inc"
};

static const char *const names_32[SYSCALL_NUMBERS] = {
#include "syscalls32.inc"
};

const char *syscall_name(enum syscall_abi abi, unsigned int number)
{
	if (number >= SYSCALL_NUMBERS)
		return NULL;
	return abi == SYSCALL_32BIT ? names_32[number] : names[number];
}

int syscall_number(const char *name)
{
	for (int i = 0; i < SYSCALL_NUMBERS; i++)
		if (names[i] && !strcmp(names[i], name))
			return i;
	return -1;
}
