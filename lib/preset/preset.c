// SPDX-License-Identifier: BSD-2-Clause
/* Finds, reads and lists presets: built in, of the administrator, and of the user. */
#include "preset/preset.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "internal.h"

/* --- built in ------------------------------------------------------------------------ */

/* The files' bytes, between two symbols each; gen/presets.inc comes from lib/presets. */
#define PRESET(name, ident, path)            \
	__asm__(".pushsection .rodata\n"     \
		"preset_" #ident "_start:\n" \
		".incbin \"" path "\"\n"     \
		"preset_" #ident "_end:\n"   \
		".byte 0\n"                  \
		".popsection\n");            \
	extern const char preset_##ident##_start[], preset_##ident##_end[];
#include "presets.inc"
#undef PRESET

static const struct builtin {
	const char *name, *start, *end;
} builtins[] = {
#define PRESET(name, ident, path) { name, preset_##ident##_start, preset_##ident##_end },
#include "presets.inc"
#undef PRESET
};

const char *builtin_name(size_t index)
{
	return index < ARRAY_SIZE(builtins) ? builtins[index].name : NULL;
}

int builtin_find(const char *name, struct preset_set **ret_set, struct err *err)
{
	char label[GROUP_NAME_MAX + 32];

	for (size_t i = 0; i < ARRAY_SIZE(builtins); i++) {
		const struct builtin *b = &builtins[i];

		if (strcmp(b->name, name))
			continue;
		snprintf(label, sizeof(label), "preset '%s', built in", name);
		return source_read(SOURCE_BUILTIN, name, label, b->start,
			(size_t)(b->end - b->start), ret_set, err);
	}
	return err_set(err, -ENOENT, "no preset '%s'", name);
}

/* --- files ---------------------------------------------------------------------------- */

/* Reads all of @fd, with a zero byte after it; the caller frees *ret_text. */
static int read_all(
	int fd, const char *path, char **ret_text, size_t *ret_len, struct err *err)
{
	int code = file_read(fd, JSON_DOC_MAX, ret_text, ret_len);

	if (code == -EFBIG)
		return err_set(err, code, "'%s' is larger than %u MiB", path,
			JSON_DOC_MAX >> 20);
	return code ? err_sys(err, code, "cannot read '%s'", path) : 0;
}

/*
 * Returns the directory of presets @index: the user's, then the administrator's; NULL if there is
 * none.
 */
static char *preset_dir(size_t index)
{
	const char *base, *home;
	char *path = NULL;

	if (index)
		return xstrdup("/etc/funcsnoop/presets");
	base = secure_getenv("XDG_CONFIG_HOME");
	home = secure_getenv("HOME");
	/* A relative path is to be ignored: XDG Base Directory Specification. */
	if (base && *base == '/')
		return asprintf(&path, "%s/funcsnoop/presets", base) < 0 ? NULL : path;
	if (home && *home == '/')
		return asprintf(&path, "%s/.config/funcsnoop/presets", home) < 0 ? NULL
										 : path;
	return NULL;
}

#define PRESET_DIRS 2

/* Reads preset @name from file @path. Returns -ENOENT if there is no such file. */
static int file_find(
	const char *path, const char *name, struct preset_set **ret_set, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	_cleanup_free_ char *text = NULL;
	int code = fd < 0 ? -errno : 0;
	struct stat st;
	size_t len;

	if (code == -ENOENT || code == -ENOTDIR)
		return -ENOENT;
	/*
	 * HOME may be another user's (sudo -u, setpriv): treat an inaccessible directory as empty.
	 */
	if (code == -EACCES && stat(path, &st) && errno == EACCES)
		return -ENOENT;
	if (code)
		return err_sys(err, code, "cannot open preset '%s'", path);
	if (fstat(fd, &st))
		return err_sys(err, -errno, "cannot stat preset '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "preset '%s' is not a regular file", path);
	code = read_all(fd, path, &text, &len, err);
	if (code)
		return code;
	return source_read(SOURCE_USER, name, path, text, len, ret_set, err);
}

/* --- the list ------------------------------------------------------------------------- */

struct list {
	struct preset_entry *entries;
	size_t cnt;
};

static bool list_has(const struct list *l, const char *name)
{
	return ANY_WHERE(l->cnt, i, !strcmp(l->entries[i].name, name));
}

/* Adds the result of preset_find(), unless @name is already listed. */
static void list_add(struct list *l, const char *name, const char *origin)
{
	_cleanup_set_ struct preset_set *set = NULL;
	struct preset_entry *e;
	struct err why = { 0 };

	if (list_has(l, name))
		return;
	e = array_add(l->entries, l->cnt);
	*e = (struct preset_entry) { .name = xstrdup(name) };
	preset_find(name, &set, &why);
	e->origin = xstrdup(set ? set->groups[0].origin : origin);
	if (!set)
		e->error = xstrdup(why.msg);
	else if (set->groups[0].description)
		e->description = xstrdup(set->groups[0].description);
	e->func_cnt = set ? set->groups[0].func_cnt : 0;
}

static void list_dir(struct list *l, const char *path)
{
	_cleanup_closedir_ DIR *dir = opendir(path);
	struct dirent *de;

	/* A directory that cannot be read has no presets that preset_find() could open. */
	while (dir && (de = readdir(dir))) {
		_cleanup_free_ char *origin = NULL;
		char name[GROUP_NAME_MAX + 1];
		size_t len = strlen(de->d_name);

		if (len < 6 || len - 5 > GROUP_NAME_MAX ||
			strcmp(de->d_name + len - 5, ".json"))
			continue;
		memcpy(name, de->d_name, len - 5);
		name[len - 5] = '\0';
		if (group_name_check(name, NULL))
			continue;
		origin = xasprintf("%s/%s", path, de->d_name);
		list_add(l, name, origin);
	}
}

DEFINE_ORDER(entry_cmp, struct preset_entry, strcmp(x->name, y->name))

void preset_list(struct preset_entry **ret_entries, size_t *ret_cnt)
{
	struct list l = { NULL, 0 };

	for (size_t i = 0; i < PRESET_DIRS; i++) {
		_cleanup_free_ char *dir = preset_dir(i);

		if (dir)
			list_dir(&l, dir);
	}
	for (size_t i = 0; i < ARRAY_SIZE(builtins); i++)
		list_add(&l, builtins[i].name, "built in");
	qsort(l.entries, l.cnt, sizeof(*l.entries), entry_cmp);
	*ret_entries = l.entries;
	*ret_cnt = l.cnt;
}

void preset_list_free(struct preset_entry *entries, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		free(entries[i].name);
		free(entries[i].origin);
		free(entries[i].description);
		free(entries[i].error);
	}
	free(entries);
}

/* --- finding and loading ---------------------------------------------------------------- */

/* -ENOENT, with the nearest name there is as the hint. */
static int not_found(const char *name, struct err *err)
{
	const char *names[ARRAY_SIZE(builtins) + 1] = { NULL };
	int rc = err_set(err, -ENOENT, "no preset '%s'", name);

	for (size_t i = 0; i < ARRAY_SIZE(builtins); i++)
		names[i] = builtins[i].name;
	suggest_hint(err, name, names);
	return rc;
}

const char *preset_of_part(const char *part)
{
	const char *found = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(builtins); i++) {
		if (!strstr(builtins[i].name, part))
			continue;
		if (found)
			return NULL;
		found = builtins[i].name;
	}
	return strlen(part) > 2 ? found : NULL;
}

int preset_find(const char *name, struct preset_set **ret_set, struct err *err)
{
	int rc = -ENOENT;

	/* A name that is invalid for groups is invalid for presets, and never a path. */
	if (group_name_check(name, NULL))
		return not_found(name, err);
	for (size_t i = 0; rc == -ENOENT && i < PRESET_DIRS; i++) {
		_cleanup_free_ char *dir = preset_dir(i), *path = NULL;

		if (!dir)
			continue;
		path = xasprintf("%s/%s.json", dir, name);
		rc = file_find(path, name, ret_set, err);
	}
	if (rc == -ENOENT)
		rc = builtin_find(name, ret_set, err);
	return rc == -ENOENT ? not_found(name, err) : rc;
}

int config_load(const char *path, struct preset_set **ret_set, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	_cleanup_free_ char *text = NULL;
	size_t len;
	int rc;

	if (fd < 0)
		return err_sys(err, -errno, "cannot open '%s'", path);
	rc = read_all(fd, path, &text, &len, err);
	if (rc)
		return rc;
	return source_read(SOURCE_CONFIG, NULL, path, text, len, ret_set, err);
}

/* --- memory ------------------------------------------------------------------------------ */

#define CHUNK_BYTES (64u << 10)

struct arena_chunk {
	struct arena_chunk *next;
	size_t used, size;
	_Alignas(16) unsigned char bytes[];
};

void *arena_alloc(struct arena *a, size_t size)
{
	struct arena_chunk *c = a->chunks;
	void *p;

	if (size > SIZE_MAX / 2)
		alloc_failed();
	size = size ? (size + 15) & ~(size_t)15 : 16;
	if (!c || c->size - c->used < size) {
		size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;

		c = xcalloc(1, sizeof(*c) + room);
		c->size = room;
		c->next = a->chunks;
		a->chunks = c;
	}
	p = c->bytes + c->used;
	c->used += size;
	return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
	return memcpy(arena_alloc(a, len + 1), s, len);
}

char *arena_strdup(struct arena *a, const char *s)
{
	return arena_strndup(a, s, strlen(s));
}

static void arena_done(struct arena *a)
{
	while (a->chunks) {
		struct arena_chunk *next = a->chunks->next;

		free(a->chunks);
		a->chunks = next;
	}
}

void preset_set_free(struct preset_set *set)
{
	struct set_impl *impl = (struct set_impl *)set;

	if (!impl)
		return;
	for (size_t i = 0; i < impl->parent_cnt; i++)
		preset_set_free(impl->parents[i]);
	free(impl->parents);
	arena_done(&impl->arena);
	free(impl);
}

/* --- asking ------------------------------------------------------------------------------ */

static int group_name_cmp(const void *key, const void *group)
{
	return strcmp(key, ((const struct preset_group *)group)->name);
}

const struct preset_group *preset_set_group(
	const struct preset_set *set, const char *name)
{
	return set->group_cnt ? bsearch(name, set->groups, set->group_cnt,
					sizeof(*set->groups), group_name_cmp)
			      : NULL;
}

bool preset_value_fits_word(const struct preset_value *value)
{
	bool number = value->kind == TYPE_INT || value->kind == TYPE_BOOL;

	return !number || (value->size >= 1 && value->size <= 8);
}

int64_t preset_value_int(const struct preset_value *value, uint64_t raw)
{
	unsigned int cut = value->size && value->size < 8 ? 64 - value->size * 8 : 0;

	if (value->kind == TYPE_BOOL)
		return (raw & 0xff) != 0;
	return value->is_signed ? (int64_t)(raw << cut) >> cut
				: (int64_t)(raw << cut >> cut);
}
