// SPDX-License-Identifier: BSD-2-Clause
// Parses untrusted JSON strictly with every version of json-c, and locates its values.
#include "base/json_read.h"

#include <ctype.h>
#include <stdarg.h>

#include "base/text.h"
#include "base/util.h"

#define JSON_C_0_18 (18 << 8) /* as in json_c_version_num(), below it is the micro version */

static void parse(const char *text, size_t len, int depth, int flags,
	struct json_object **ret_root, struct json_end *ret_end)
{
	struct json_tokener *tok = json_tokener_new_ex(depth);

	if (!tok)
		alloc_failed();
	json_tokener_set_flags(tok, flags);
	*ret_root = json_tokener_parse_ex(tok, text, (int)len);
	ret_end->status = json_tokener_get_error(tok);
	ret_end->at = json_tokener_get_parse_end(tok);
	json_tokener_free(tok);
}

static bool is_ascii(const char *text, size_t len)
{
	return !ANY_WHERE(len, i, text[i] & 0x80);
}

/*
 * Parses a copy with all non-ASCII bytes replaced by letters. It is valid exactly if the text is:
 * outside strings and in escapes, both are errors.
 */
static void parse_letters(const char *text, size_t len, int depth, struct json_end *ret_end)
{
	_cleanup_free_ char *letters = xmalloc(len);
	struct json_object *root = NULL;

	for (size_t i = 0; i < len; i++)
		letters[i] = text[i] & 0x80 ? 'x' : text[i];
	parse(letters, len, depth, JSON_TOKENER_STRICT, &root, ret_end);
	json_object_put(root);
}

void json_read_with(const char *text, size_t len, int depth, bool ascii_only,
	struct json_object **ret_root, struct json_end *ret_end)
{
	int flags = JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8;

	*ret_root = NULL;
	if (ascii_only && !is_ascii(text, len)) {
		parse_letters(text, len, depth, ret_end);
		if (ret_end->status != json_tokener_success)
			return;
		flags &= ~JSON_TOKENER_STRICT;
	}
	parse(text, len, depth, flags, ret_root, ret_end);
}

void json_read(const char *text, size_t len, int depth, struct json_object **ret_root,
	struct json_end *ret_end)
{
	bool ascii_only = (json_c_version_num() & ~0xff) == JSON_C_0_18;

	json_read_with(text, len, depth, ascii_only, ret_root, ret_end);
}

/* --- the location of every value --------------------------------------------------------------- */

/*
 * json-c parses, but records no locations, and if an object has two members of one name, the last
 * one silently wins. So walk the text again, in parallel with the tree. Members of the tree are in
 * the order of their first appearance. The n-th name of the text therefore differs from the n-th of
 * the tree if a name is used twice.
 *
 * The location of each value goes into its user data: the offsets of its name (of itself in an
 * array) and of itself, 32 bits each. The walk cannot fail on a text that json-c accepted; if it
 * ever did, it would stop with an error.
 */

#define JSON_DEPTH 16

struct walk {
	struct json_doc *doc;
	const char *p, *end;
	struct err *err;
};

/* Copies @msg, cut and cleaned: a name of the file may have been cut within a character. */
static void clean_text(const char *msg, char *out, size_t size)
{
	size_t n = 0;

	while (*msg) {
		size_t len = utf8_len(msg, strnlen(msg, 4));
		bool bad = !len || utf8_is_control(msg, len) || utf8_is_layout(msg, len);

		len = bad ? 1 : len;
		if (n + len >= size)
			break;
		memcpy(out + n, bad ? "?" : msg, len);
		n += len;
		msg += len;
	}
	out[n] = '\0';
}

static int err_at(
	const struct json_doc *doc, size_t offset, struct err *err, const char *msg)
{
	const char *p = doc->text,
		   *end = doc->text + (offset < doc->len ? offset : doc->len);
	unsigned int line = 1, column = 1;
	char clean[512];

	for (; p < end; p++) {
		if (*p == '\n') {
			line++;
			column = 1;
		} else if (!utf8_goes_on(*p)) {
			column++;
		}
	}
	clean_text(msg, clean, sizeof(clean));
	return err_set(err, -EINVAL, "%s:%u:%u: %s", doc->label, line, column, clean);
}

static int walk_err(struct walk *w, const char *at, const char *msg)
{
	return err_at(w->doc, (size_t)(at - w->doc->text), w->err, msg);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_blank(struct walk *w)
{
	while (w->p < w->end && is_blank(*w->p))
		w->p++;
}

/* Returns the end of the string that starts at @p. */
static const char *string_end(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		if (*p == '\\')
			p++;
	return p < end ? p + 1 : end;
}

/* Returns the end of the value at @p, of any type. */
static const char *value_end(const char *p, const char *end)
{
	unsigned int depth = 0;

	while (p < end) {
		if (*p == '"') {
			p = string_end(p, end);
		} else if (*p == '{' || *p == '[') {
			depth++;
			p++;
		} else if (*p == '}' || *p == ']') {
			if (!depth)
				return p;
			depth--;
			p++;
		} else if (!depth && (*p == ',' || is_blank(*p))) {
			return p;
		} else {
			p++;
			continue;
		}
		if (!depth)
			return p;
	}
	return p;
}

/* True if the number [p, end) fits into 64 bits, or is not an integer. */
static bool number_fits(const char *p, const char *end)
{
	char *stop;

	errno = 0;
	if (*p == '-')
		strtoll(p, &stop, 10);
	else
		strtoull(p, &stop, 10);
	return stop != end || errno != ERANGE;
}

/* True if the string literal [p, end) of the text equals @key. */
static bool literal_is(const char *p, const char *end, const char *key)
{
	_cleanup_free_ char *copy = NULL;
	struct json_object *decoded;
	bool same;

	if (!memchr(p, '\\', (size_t)(end - p)))
		return (size_t)(end - p) == strlen(key) + 2 &&
			!memcmp(p + 1, key, strlen(key));
	copy = xstrndup(p, (size_t)(end - p));
	decoded = json_tokener_parse(copy);
	same = decoded && !strcmp(json_object_get_string(decoded), key) &&
		(size_t)json_object_get_string_len(decoded) == strlen(key);
	json_object_put(decoded);
	return same;
}

static int walk_value(struct walk *w, struct json_object *obj, const char *key_at);

/* Compares the names of the object at w->p with the tree's; leaves w->p alone. */
static int walk_names(struct walk *w, struct json_object *obj)
{
	struct json_object_iterator it = json_object_iter_begin(obj);
	struct json_object_iterator last = json_object_iter_end(obj);
	const char *start = w->p, *key, *end;
	char msg[256];

	w->p++;
	for (skip_blank(w); w->p < w->end && *w->p == '"'; skip_blank(w)) {
		key = w->p;
		end = string_end(key, w->end);
		if (json_object_iter_equal(&it, &last) ||
			!literal_is(key, end, json_object_iter_peek_name(&it))) {
			snprintf(msg, sizeof(msg),
				"%.*s is used twice, or has a zero byte",
				(int)(end - key < 128 ? end - key : 128), key);
			return walk_err(w, key, msg);
		}
		json_object_iter_next(&it);
		w->p = end;
		skip_blank(w);
		w->p++; /* the colon */
		skip_blank(w);
		w->p = value_end(w->p, w->end);
		skip_blank(w);
		if (w->p < w->end && *w->p == ',')
			w->p++;
	}
	w->p = start;
	return 0;
}

static int walk_object(struct walk *w, struct json_object *obj)
{
	struct json_object_iterator it = json_object_iter_begin(obj);
	const char *key;
	int rc = walk_names(w, obj);

	if (rc)
		return rc;
	w->p++;
	for (skip_blank(w); w->p < w->end && *w->p == '"'; skip_blank(w)) {
		key = w->p;
		w->p = string_end(key, w->end);
		skip_blank(w);
		w->p++;
		skip_blank(w);
		rc = walk_value(w, json_object_iter_peek_value(&it), key);
		if (rc)
			return rc;
		json_object_iter_next(&it);
		skip_blank(w);
		if (w->p < w->end && *w->p == ',')
			w->p++;
	}
	if (w->p >= w->end || *w->p != '}')
		return walk_err(w, w->p, "this object can't be followed");
	w->p++;
	return 0;
}

static int walk_array(struct walk *w, struct json_object *obj)
{
	size_t cnt = json_object_array_length(obj);
	int rc;

	w->p++;
	for (size_t i = 0; i < cnt; i++) {
		skip_blank(w);
		rc = walk_value(w, json_object_array_get_idx(obj, i), w->p);
		if (rc)
			return rc;
		skip_blank(w);
		if (w->p < w->end && *w->p == ',')
			w->p++;
	}
	skip_blank(w);
	if (w->p >= w->end || *w->p != ']')
		return walk_err(w, w->p, "this array can't be followed");
	w->p++;
	return 0;
}

static int walk_value(struct walk *w, struct json_object *obj, const char *key_at)
{
	uintptr_t place = (uintptr_t)(key_at - w->doc->text) << 32 |
		(uintptr_t)(w->p - w->doc->text);
	const char *end;

	if (!obj)
		return walk_err(w, w->p, "null says nothing here; leave the name out");
	if (json_object_is_type(obj, json_type_double))
		return walk_err(w, w->p, "a number with a fraction has no meaning here");
	json_object_set_userdata(obj, (void *)place, NULL);
	switch (json_object_get_type(obj)) {
	case json_type_object:
		if (*w->p == '{')
			return walk_object(w, obj);
		break;
	case json_type_array:
		if (*w->p == '[')
			return walk_array(w, obj);
		break;
	case json_type_string:
		if (strlen(json_object_get_string(obj)) !=
			(size_t)json_object_get_string_len(obj))
			return walk_err(w, w->p, "a string with a zero byte");
		/* fall through */
	default:
		end = value_end(w->p, w->end);
		if (json_object_is_type(obj, json_type_int) && !number_fits(w->p, end))
			return walk_err(w, w->p, "number out of range");
		w->p = end;
		return 0;
	}
	return walk_err(w, w->p, "this value can't be followed");
}

/* Returns the start of the number that ends at @stop and is too large, or NULL. */
static const char *find_large(const struct json_doc *doc, size_t stop)
{
	const char *p = doc->text + stop;

	while (p > doc->text && (isdigit((unsigned char)p[-1]) || p[-1] == '-'))
		p--;
	return number_fits(p, doc->text + stop) ? NULL : p;
}

/*
 * Returns the tree, or the error and location of the tokener. json-c before 0.18 clamps a number
 * that is too large; the walk detects that.
 */
static int parse_tree(struct json_doc *doc, struct err *err)
{
	const char *large;
	struct json_end end;
	size_t stop;

	json_read(doc->text, doc->len, JSON_DEPTH, &doc->root, &end);
	stop = end.at;
	if (end.status == json_tokener_continue)
		return err_at(doc, doc->len, err, "the file ends too early");
	if (end.status == json_tokener_error_depth)
		return err_at(doc, stop, err, "nested too deep");
	large = end.status == json_tokener_error_parse_number ? find_large(doc, stop) : NULL;
	if (large)
		return err_at(
			doc, (size_t)(large - doc->text), err, "number out of range");
	while (stop < doc->len && is_blank(doc->text[stop]))
		stop++;
	if (end.status != json_tokener_success)
		return err_at(doc, stop, err, json_tokener_error_desc(end.status));
	if (stop < doc->len)
		return err_at(doc, stop, err, "something follows the object");
	return 0;
}

int json_err(const struct json_doc *doc, const struct json_object *at,
	enum json_side side, struct err *err, const char *fmt, ...)
{
	uintptr_t place = (uintptr_t)json_object_get_userdata((struct json_object *)at);
	char msg[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	return err_at(
		doc, side == JSON_AT_KEY ? place >> 32 : place & 0xffffffff, err, msg);
}

void json_doc_done(struct json_doc *doc)
{
	json_object_put(doc->root);
	doc->root = NULL;
}

int json_doc_parse(struct json_doc *doc, const char *label, const char *text, size_t len,
	struct err *err)
{
	struct walk w = { .doc = doc, .p = text, .end = text + len, .err = err };
	int rc;

	*doc = (struct json_doc) { .label = label, .text = text, .len = len };
	if (len > JSON_DOC_MAX)
		return err_set(err, -EFBIG, "%s: larger than %u MiB", label,
			JSON_DOC_MAX >> 20);
	if (memchr(text, '\0', len))
		return err_at(doc, strlen(text), err, "a zero byte");
	rc = parse_tree(doc, err);
	if (rc)
		return rc;
	skip_blank(&w);
	if (!json_object_is_type(doc->root, json_type_object))
		return err_at(
			doc, (size_t)(w.p - text), err, "an object '{...}' is needed");
	return walk_value(&w, doc->root, w.p);
}
