// SPDX-License-Identifier: BSD-2-Clause
// Saved documents of `stats --json`, and files that appear whole or not at all.
#include "stats/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <json-c/json.h>

#define SAVED_MAX (512U << 20) /* bytes; a million functions take less */

static const char *const keys[] = {
#define X(id, key, duration) key,
	SAVED_METRICS(X)
#undef X
};

static const bool durations[] = {
#define X(id, key, duration) duration,
	SAVED_METRICS(X)
#undef X
};

const char *saved_metric_key(enum saved_metric m)
{
	return keys[m];
}

bool saved_metric_is_duration(enum saved_metric m)
{
	return durations[m];
}

/* --- reading -------------------------------------------------------------------------------- */

static void cleanup_object(struct json_object **obj)
{
	json_object_put(*obj);
}

static void cleanup_tokener(struct json_tokener **tok)
{
	if (*tok)
		json_tokener_free(*tok);
}

/* A file, or a pipe (`--diff <(...)`), into memory. */
static int read_all(const char *path, char **ret_text, size_t *ret_len, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *text = NULL;
	size_t len = 0, size = 0;
	ssize_t n = 1;

	if (fd < 0)
		return err_sys(err, -errno, "cannot open '%s'", path);
	while (n > 0) {
		if (len == size) {
			char *more = size < SAVED_MAX
				? realloc(text, size = size ? size * 2 : 65536)
				: NULL;

			if (!more)
				return err_set(err, -EFBIG, "'%s' is too big", path);
			text = more;
		}
		n = read(fd, text + len, size - len);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			return err_sys(err, -errno, "cannot read '%s'", path);
		else
			len += n;
	}
	*ret_text = TAKE_PTR(text);
	*ret_len = len;
	return 0;
}

static const char *str_of(struct json_object *obj, const char *key)
{
	struct json_object *value;

	if (!json_object_object_get_ex(obj, key, &value) ||
		!json_object_is_type(value, json_type_string))
		return NULL;
	return json_object_get_string(value);
}

static int func_of(struct json_object *obj, struct saved_func *func)
{
	const char *name = str_of(obj, "name"), *library = str_of(obj, "library");
	struct json_object *value;

	if (!json_object_is_type(obj, json_type_object) || !name)
		return -EINVAL;
	for (int m = 0; m < SAVED_METRIC_CNT; m++) {
		if (!json_object_object_get_ex(obj, keys[m], &value) || !value)
			continue;
		if (!json_object_is_type(value, json_type_int) ||
			json_object_get_int64(value) < 0)
			return -EINVAL;
		func->known[m] = true;
		func->value[m] = json_object_get_uint64(value);
	}
	func->name = strdup(name);
	func->library = library ? strdup(library) : NULL;
	return func->name && (func->library || !library) ? 0 : -ENOMEM;
}

static int compare_funcs(const void *a, const void *b)
{
	const struct saved_func *x = a, *y = b;
	int by_name = strcmp(x->name, y->name);

	if (by_name)
		return by_name;
	return strcmp(x->library ? x->library : "", y->library ? y->library : "");
}

static int group_of(struct json_object *obj, struct saved_group *group)
{
	struct json_object *list;
	const char *name = str_of(obj, "group"), *since = str_of(obj, "since");
	size_t cnt;
	int code;

	if (!json_object_is_type(obj, json_type_object) || !name ||
		!json_object_object_get_ex(obj, "functions", &list) ||
		!json_object_is_type(list, json_type_array))
		return -EINVAL;
	cnt = json_object_array_length(list);
	group->name = strdup(name);
	group->since = strdup(since ? since : "");
	group->funcs = calloc(cnt + 1, sizeof(*group->funcs));
	if (!group->name || !group->since || !group->funcs)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++) {
		group->func_cnt++;
		code = func_of(json_object_array_get_idx(list, i), &group->funcs[i]);
		if (code)
			return code;
	}
	qsort(group->funcs, cnt, sizeof(*group->funcs), compare_funcs);
	return 0;
}

static int parse(struct saved *saved, const char *text, size_t len)
{
	__cleanup(cleanup_tokener) struct json_tokener *tok = json_tokener_new();
	__cleanup(cleanup_object) struct json_object *root = NULL;
	size_t cnt;
	int code;

	if (!tok)
		return -ENOMEM;
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT);
	root = json_tokener_parse_ex(tok, text, (int)len);
	if (!root || !json_object_is_type(root, json_type_array))
		return -EINVAL;
	cnt = json_object_array_length(root);
	saved->groups = calloc(cnt + 1, sizeof(*saved->groups));
	if (!saved->groups)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++) {
		saved->cnt++;
		code = group_of(json_object_array_get_idx(root, i), &saved->groups[i]);
		if (code)
			return code;
	}
	return 0;
}

int saved_read(const char *path, struct saved **ret_saved, struct err *err)
{
	_cleanup_saved_ struct saved *saved = calloc(1, sizeof(*saved));
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int code;

	if (!saved)
		return err_sys(err, -ENOMEM, "cannot read '%s'", path);
	code = read_all(path, &text, &len, err);
	if (code)
		return code;
	/* The end of a document is a line's end, which a tokener in strict mode takes. */
	while (len && strchr(" \t\r\n", text[len - 1]))
		len--;
	code = parse(saved, text, len);
	if (code == -EINVAL) {
		err_set(err, code, "'%s' is no document of 'funcsnoop stats --json'",
			path);
		return err_hint(err, "'funcsnoop stats --save FILE' writes one");
	}
	if (code)
		return err_sys(err, code, "cannot read '%s'", path);
	*ret_saved = TAKE_PTR(saved);
	return 0;
}

void saved_free(struct saved *saved)
{
	if (!saved)
		return;
	for (size_t i = 0; i < saved->cnt; i++) {
		struct saved_group *group = &saved->groups[i];

		for (size_t k = 0; k < group->func_cnt; k++) {
			free(group->funcs[k].name);
			free(group->funcs[k].library);
		}
		free(group->funcs);
		free(group->name);
		free(group->since);
	}
	free(saved->groups);
	free(saved);
}

const struct saved_group *saved_group_find(
	const struct saved *saved, const char *name, bool sole)
{
	for (size_t i = 0; i < saved->cnt; i++)
		if (!strcmp(saved->groups[i].name, name))
			return &saved->groups[i];
	return sole && saved->cnt == 1 ? &saved->groups[0] : NULL;
}

const struct saved_func *saved_func_find(
	const struct saved_group *group, const char *name, const char *library)
{
	size_t low = 0, high = group->func_cnt, mid, first;

	/* The first of that name; they are sorted. */
	while (low < high) {
		mid = low + (high - low) / 2;
		if (strcmp(group->funcs[mid].name, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	first = low;
	for (; low < group->func_cnt && !strcmp(group->funcs[low].name, name); low++)
		if (library && group->funcs[low].library &&
			!strcmp(group->funcs[low].library, library))
			return &group->funcs[low];
	return low - first == 1 ? &group->funcs[first] : NULL;
}

/* --- writing -------------------------------------------------------------------------------- */

static int write_all(int fd, const char *buf, size_t len)
{
	while (len) {
		ssize_t n = write(fd, buf, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		buf += n;
		len -= n;
	}
	return 0;
}

static int write_special(const char *path, const char *buf, size_t len)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);

	return fd < 0 ? -errno : write_all(fd, buf, len);
}

/* A hidden name that no collector of *.prom reads. */
static char *temp_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	int dir = slash ? (int)(slash + 1 - path) : 0;
	char *name;

	return asprintf(&name, "%.*s.%s.XXXXXX", dir, path, path + dir) < 0 ? NULL : name;
}

int saved_write(const char *path, mode_t mode, const char *buf, size_t len,
	struct err *err)
{
	_cleanup_free_ char *temp = temp_name(path);
	struct stat st;
	int fd, code;

	if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
		code = write_special(path, buf, len);
		return code ? err_sys(err, code, "cannot write '%s'", path) : 0;
	}
	fd = temp ? mkostemp(temp, O_CLOEXEC) : -1;
	if (fd < 0)
		return err_sys(err, temp ? -errno : -ENOMEM, "cannot write '%s'", path);
	code = write_all(fd, buf, len);
	if (!code && fchmod(fd, mode))
		code = -errno;
	if (close(fd) && !code)
		code = -errno;
	if (!code && rename(temp, path))
		code = -errno;
	if (!code)
		return 0;
	unlink(temp);
	return err_sys(err, code, "cannot write '%s'", path);
}
