// SPDX-License-Identifier: BSD-2-Clause
// Finding functions by demangled names, and inlined copies of functions by debug information.
//
// Demangling all names of a large library takes seconds, so only names that can match are
// demangled. A mangled name contains each identifier verbatim, after its length. The search picks
// one identifier of each requested name, and matches all exact names in one pass over the symbols.
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "elf/dwarf.h"
#include "elf/elf_file.h"
#include "internal.h"

/* --- Demangled names as text: comparison of typed names with the demangler's output ---------- */

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (c & 0x80);
}

/* True if the text before @end ends in "operator", so that the operator's sign follows. */
static bool after_operator(const char *start, const char *end)
{
	static const char word[] = "operator";
	const size_t len = sizeof(word) - 1;

	while (end > start && strchr("<>=-+!~^&|*/%,([", end[-1]))
		end--;
	return (size_t)(end - start) >= len && memcmp(end - len, word, len) == 0 &&
		((size_t)(end - start) == len || !is_word(*(end - len - 1)));
}

/* Returns the end of the bracketed group at @p, or NULL. */
static const char *skip_group(const char *p)
{
	int depth = 0;

	for (; *p; p++) {
		if (strchr("(<[{", *p)) {
			depth++;
		} else if (strchr(")>]}", *p)) {
			if (*p == '>' && p[-1] == '-') /* Rust's and operator's -> */
				continue;
			if (!--depth)
				return p + 1;
		}
	}
	return NULL;
}

void text_normalize(const char *text, char *out)
{
	const char *p = text, *end;
	char last = '\0';

	while (*p) {
		if (*p == '[' && strncmp(p, "[abi:", 5) == 0 && (end = strchr(p, ']'))) {
			p = end + 1;
			continue;
		}
		if (*p == ' ') {
			p += strspn(p, " ");
			if (!is_word(last) || !is_word(*p))
				continue;
			*out++ = last = ' ';
			continue;
		}
		*out++ = last = *p++;
	}
	*out = '\0';
}

bool text_drop_templates(const char *text, char *out)
{
	const char *p = text, *end;
	bool dropped = false;

	while (*p) {
		/* "<T as Trait>::f" of Rust starts with a bracket, which is not an argument list */
		if (*p == '<' && p > text && is_word(p[-1]) && !after_operator(text, p) &&
			(end = skip_group(p))) {
			p = end;
			dropped = true;
			continue;
		}
		*out++ = *p++;
	}
	*out = '\0';
	return dropped;
}

void text_drop_qualifiers(char *text)
{
	char *close = strrchr(text, ')');

	if (close)
		close[1] = '\0';
}

bool text_has_args(const char *text)
{
	static const char anonymous[] = "(anonymous namespace)";
	const char *p = text;

	while ((p = strchr(p, '('))) {
		if (strncmp(p, anonymous, sizeof(anonymous) - 1) == 0) {
			p += sizeof(anonymous) - 1;
			continue;
		}
		if (p[1] == ')' && after_operator(text, p)) {
			p += 2;
			continue;
		}
		return true;
	}
	return false;
}

bool text_is_go(const char *name, const char *wanted, bool by_type)
{
	const char *slash = memrchr(name, '/', strcspn(name, "[(")), *dot = strchr(slash ? slash : name, '.');
	size_t len;

	if (!dot)
		return false;
	name = dot + 1;
	if (!by_type)
		return !strcmp(name, wanted);
	if (strncmp(name, "(*", 2) != 0)
		return false;
	name += 2;
	len = strcspn(name, ")");
	return name[len] && !strncmp(name, wanted, len) && !strcmp(name + len + 1, wanted + len);
}

/* True for words that the mangled form abbreviates, and for words that are not names. */
static bool is_unreliable(const char *p, size_t len)
{
	static const char *const words[] = { "std", "string", "allocator", "basic_string",
		"istream", "ostream", "iostream", "basic_istream", "basic_ostream",
		"basic_iostream", "operator", "impl", "const", "_GLOBAL__N_1" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strlen(words[i]) == len && memcmp(words[i], p, len) == 0)
			return true;
	}
	return false;
}

/*
 * Returns the length of the word at @p, without a last character that a quantifier makes optional.
 */
static size_t word_length(const char *p, bool regex)
{
	size_t len = 0;

	while (is_word(p[len]))
		len++;
	if (regex && p[len] && strchr("*?{", p[len]))
		len--;
	return len;
}

struct ident text_ident(const char *text, bool regex, bool whole)
{
	struct ident best = { 0 }, second = { 0 };
	const char *p = text, *end;

	if (regex && strchr(text, '|'))
		return best;
	while (*p) {
		size_t len;

		if (*p == '\\' && p[1]) {
			p += 2;
			continue;
		}
		if (strchr("(<[{", *p)) {
			end = skip_group(p);
			if (!end) /* the rest may be inside the group */
				break;
			p = end;
			continue;
		}
		if (!is_word(*p)) {
			p++;
			continue;
		}
		len = word_length(p, regex);
		end = p + len + strspn(p + len, " ");
		if (len == 8 &&
			memcmp(p, "operator", 8) == 0) { /* skip to the next scope */
			p = strstr(p, "::");
			if (!p)
				break;
			continue;
		}
		if (len && !is_unreliable(p, len)) {
			/* "Vec<T>" of Rust is one word in the mangled name */
			struct ident *slot = whole && *end == '<' ? &second : &best;

			if (len >= slot->len)
				*slot = (struct ident) { .p = p, .len = len };
		}
		p += len ? len : 1;
		while (is_word(*p))
			p++;
	}
	return best.len ? best : second;
}

#define IDENT_MAX 255

/* A name to be matched exactly. */
struct want {
	struct arg *arg;
	char *text; /* normalized */
	uint32_t next;
	char *whole;  /* FORM_INNER: the first name that ends like it, or NULL */
	bool several; /* there are others */
};

/* The form of names that is compared with the requested ones, in a pass of its own. */
enum form {
	FORM_USUAL,
	FORM_VERBOSE, /* with std::ostream and similar written in full */
	FORM_INNER,   /* without some of the outer scopes */
};

struct batch {
	struct resolver *r;
	enum form form;
	struct want *wants;
	size_t want_cnt;
	uint32_t *buckets;        /* by text: index + 1 of the first want */
	struct ident *idents;     /* open addressing */
	size_t mask;              /* of both tables */
	bool lens[IDENT_MAX + 1]; /* lengths that occur */
	bool all;                 /* some name has no identifier to search for */
	bool args;                /* some name has arguments */
	/* the name under examination */
	char *q, *full, *text;
	size_t q_cap, full_cap, text_cap;
};

static void batch_done(struct batch *b)
{
	for (size_t i = 0; i < b->want_cnt; i++) {
		free(b->wants[i].text);
		free(b->wants[i].whole);
	}
	free(b->wants);
	free(b->buckets);
	free(b->idents);
	free(b->q);
	free(b->full);
	free(b->text);
}

static size_t hash_text(const char *p, size_t len)
{
	uint64_t h = hash_add(len, p, len);

	return h ^ h >> 32;
}

static void ident_add(struct batch *b, struct ident id)
{
	size_t at = hash_text(id.p, id.len);

	if (!id.len || id.len > IDENT_MAX) {
		b->all = true;
		return;
	}
	b->lens[id.len] = true;
	while (b->idents[at & b->mask].len)
		at++;
	b->idents[at & b->mask] = id;
}

static bool ident_wanted(const struct batch *b, const char *p, size_t len)
{
	size_t at = hash_text(p, len);

	for (;; at++) {
		const struct ident *id = &b->idents[at & b->mask];

		if (!id->len)
			return false;
		if (id->len == len && memcmp(id->p, p, len) == 0)
			return true;
	}
}

/*
 * True if a mangled name contains one of the identifiers. A length can start at any digit, because
 * an identifier that ends in a digit is directly followed by the next length.
 */
static bool name_hits(const struct batch *b, const struct elf_name *n)
{
	const char *end = n->name + n->len;

	if (b->all)
		return true;
	for (const char *p = n->name + 2; p < end; p++) {
		const char *q = p;
		size_t len = 0;

		if (*p < '1' || *p > '9')
			continue;
		while (q < end && isdigit((unsigned char)*q) && len <= IDENT_MAX)
			len = 10 * len + (*q++ - '0');
		if (len > IDENT_MAX || !b->lens[len])
			continue;
		if (len <= (size_t)(end - q) && ident_wanted(b, q, len))
			return true;
		/* Rust separates length and identifier by '_' if they would run together */
		if (q < end && *q == '_' && len < (size_t)(end - q) &&
			ident_wanted(b, q + 1, len))
			return true;
	}
	return false;
}

static void batch_size(struct batch *b, size_t arg_cnt)
{
	size_t size = 16;

	while (size < 2 * arg_cnt)
		size *= 2;
	b->mask = size - 1;
	b->wants = xcalloc(arg_cnt + 1, sizeof(*b->wants));
	b->buckets = xcalloc(size, sizeof(*b->buckets));
	b->idents = xcalloc(size, sizeof(*b->idents));
}

static void want_add(struct batch *b, struct arg *a)
{
	struct want *w = &b->wants[b->want_cnt];
	uint32_t *bucket;

	w->text = xmalloc(strlen(a->name) + 1);
	text_normalize(a->name, w->text);
	w->arg = a;
	bucket = &b->buckets[hash_text(w->text, strlen(w->text)) & b->mask];
	w->next = *bucket;
	*bucket = ++b->want_cnt;
	b->args |= text_has_args(w->text);
	ident_add(b, text_ident(a->name, false, true));
}

static int take(struct resolver *r, struct arg *a, const struct match *found)
{
	struct match m = *found;
	char buf[1024];

	if (!arg_version_fits(a, m.func, m.name))
		return 0;
	m.addr = m.func->addr + (a->has_plus ? a->plus : 0);
	if (m.name->base && snprintf(buf, sizeof(buf), "%s%s", m.shown,
				    m.name->name + strlen(m.name->base)) < (int)sizeof(buf))
		m.shown = buf;
	else if (a->has_plus &&
		snprintf(buf, sizeof(buf), "%s+0x%" PRIx64, m.shown, a->plus) <
			(int)sizeof(buf))
		m.shown = buf;
	return match_add(r, a, &m);
}

/* Returns the name to demangle: for a clone, the function's own name. */
static const char *mangled(const struct match *m)
{
	return m->name->base ? m->name->base : m->name->name;
}

/* Passes a function to all requests for this text. */
static int offer(struct batch *b, const struct match *m, const char *text)
{
	uint32_t at = b->buckets[hash_text(text, strlen(text)) & b->mask];
	int ret;

	for (; at; at = b->wants[at - 1].next) {
		struct want *w = &b->wants[at - 1];
		struct match found = *m;

		if (strcmp(w->text, text) != 0 ||
			objects_find(w->arg->libs, m->lib) == w->arg->libs->cnt)
			continue;
		w->arg->patterned = false; /* an exact match after all */
		found.shown = w->arg->name;
		ret = take(b->r, w->arg, &found);
		if (ret)
			return ret;
	}
	return 0;
}

static void text_room(struct batch *b, size_t len)
{
	if (len < b->text_cap)
		return;
	b->text = xreallocarray(b->text, 2 * len + 64, 1);
	b->text_cap = 2 * len + 64;
}

/* Offers a text with arguments, and without the qualifiers of a method. */
static int offer_text(struct batch *b, const struct match *m, const char *text)
{
	int ret;

	text_room(b, strlen(text));
	text_normalize(text, b->text);
	ret = offer(b, m, b->text);
	if (ret)
		return ret;
	text_drop_qualifiers(b->text);
	return offer(b, m, b->text);
}

/* Offers the forms with arguments: as the demangler writes them, and without the result type. */
static int offer_args(struct batch *b, const struct match *m, enum demangle_form form)
{
	const char *at;
	int ret;

	if (!demangle_into(mangled(m), form, &b->full, &b->full_cap))
		return 0;
	ret = offer_text(b, m, b->full);
	at = strstr(b->full, b->q);
	return ret || !at || at == b->full ? ret : offer_text(b, m, at);
}

/* True if the mangled name may contain an abbreviation that c++filt expands. */
static bool has_abbreviation(const struct elf_name *n)
{
	const char *p = n->name;

	while ((p = strchr(p, 'S'))) {
		p++;
		if (*p == 'o' || *p == 'i' || *p == 'd' || *p == 's')
			return true;
	}
	return false;
}

static int offer_full(struct batch *b, const struct match *m)
{
	if (b->form == FORM_VERBOSE)
		return has_abbreviation(m->name) ? offer_args(b, m, DEMANGLE_VERBOSE) : 0;
	return offer_args(b, m, DEMANGLE_ARGS);
}

/* Returns the text after the next scope, outside of brackets, or NULL. */
static const char *inner_text(const char *text)
{
	while (*text && strncmp(text, "::", 2) != 0) {
		text = strchr("(<[{", *text) ? skip_group(text) : text + 1;
		if (!text)
			return NULL;
	}
	return *text ? text + 2 : NULL;
}

/* Passes "geo::detail::area" to all requests for "detail::area" and "area". */
static void offer_inner(struct batch *b, const struct match *m)
{
	(void)text_drop_templates(b->text, b->text);
	for (const char *p = b->text; (p = inner_text(p));) {
		uint32_t at = b->buckets[hash_text(p, strlen(p)) & b->mask];

		for (; at; at = b->wants[at - 1].next) {
			struct want *w = &b->wants[at - 1];

			if (strcmp(w->text, p) != 0 ||
				objects_find(w->arg->libs, m->lib) == w->arg->libs->cnt)
				continue;
			if (!w->whole)
				w->whole = xstrdup(b->text);
			w->several |= strcmp(w->whole, b->text) != 0;
		}
	}
}

static int offer_forms(struct batch *b, const struct match *m)
{
	size_t len = demangle_into(mangled(m), DEMANGLE_NAME, &b->q, &b->q_cap);
	int ret;

	if (!len)
		return 0;
	text_room(b, len);
	text_normalize(b->q, b->text);
	if (b->form == FORM_INNER) {
		offer_inner(b, m);
		return 0;
	}
	ret = offer(b, m, b->text);
	if (!ret && text_drop_templates(b->text, b->text))
		ret = offer(b, m, b->text);
	return ret || !b->args ? ret : offer_full(b, m);
}

/* Calls @fn for every mangled name of a function in @lib. */
static int each_mangled(struct resolver *r, const struct object *lib,
	int (*fn)(void *ctx, const struct match *m), void *ctx)
{
	const struct elf_func *funcs;
	size_t cnt;
	int ret;

	ret = elf_file_funcs(lib->elf, &funcs, &cnt, r->err);
	for (size_t i = 0; !ret && i < cnt; i++) {
		for (uint32_t k = 0; !ret && k < funcs[i].name_cnt; k++) {
			const struct elf_name *n = &funcs[i].names[k];
			struct match m = { .lib = lib, .func = &funcs[i], .name = n };

			if ((!n->piece || n->base) && demangle_is_mangled(n->name))
				ret = fn(ctx, &m);
		}
	}
	return ret;
}

static int batch_name(void *ctx, const struct match *m)
{
	struct batch *b = ctx;

	return name_hits(b, m->name) ? offer_forms(b, m) : 0;
}

/* Adds the libraries of @a, each once. */
static void add_libs(struct objects *set, const struct arg *a)
{
	for (size_t i = 0; i < a->libs->cnt; i++)
		objects_add(set, a->libs->object[i]);
}

/* True if @a may be compared in @form. A name that a library imports means that function. */
static bool has_form(const struct arg *a, enum form form)
{
	const struct object *importer;
	const char *name;

	switch (form) {
	case FORM_VERBOSE:
		return text_has_args(a->name);
	case FORM_INNER:
		return arg_is_missing(a) && !a->patterned && !text_has_args(a->name) &&
			!resolve_imports(a, &importer, &name);
	default:
		return true;
	}
}

/*
 * Matches all unresolved names exactly, including globs, because "operator[]" is also a glob. With
 * FORM_INNER completes those that only one name ends like.
 */
static int find_letters(struct resolver *r, enum form form)
{
	__cleanup(batch_done) struct batch b = { .r = r, .form = form };
	__cleanup(objects_done) struct objects set = { 0 };
	int ret;

	batch_size(&b, r->arg_cnt);
	for (size_t i = 0; i < r->arg_cnt; i++) {
		struct arg *a = &r->args[i];

		if (!arg_is_open(a) || a->regex || !*a->name || !has_form(a, form))
			continue;
		want_add(&b, a);
		add_libs(&set, a);
	}
	for (size_t i = 0; b.want_cnt && i < set.cnt; i++) {
		ret = each_mangled(r, set.object[i], batch_name, &b);
		if (ret)
			return ret;
	}
	for (size_t i = 0; i < b.want_cnt; i++)
		if (b.wants[i].whole && !b.wants[i].several)
			b.wants[i].arg->name = b.wants[i].arg->whole = TAKE_PTR(b.wants[i].whole);
	return 0;
}

/* A pattern while a library is searched. */
struct search {
	struct resolver *r;
	struct arg *arg;
	struct ident ident;
	bool full; /* with arguments */
	char *buf, *text;
	size_t cap, text_cap;
};

static void search_done(struct search *s)
{
	free(s->buf);
	free(s->text);
}

static bool search_text(struct search *s, const char *symbol, bool full)
{
	size_t len = demangle_into(
		symbol, full ? DEMANGLE_ARGS : DEMANGLE_NAME, &s->buf, &s->cap);

	if (!len)
		return false;
	if (s->arg->regex) /* a regular expression may depend on the demangler's spaces */
		return pattern_match(&s->arg->pattern, s->buf);
	if (len >= s->text_cap) {
		s->text = xreallocarray(s->text, 2 * len + 64, 1);
		s->text_cap = 2 * len + 64;
	}
	text_normalize(s->buf, s->text);
	if (pattern_match(&s->arg->pattern, s->text))
		return true;
	return text_drop_templates(s->text, s->text) &&
		pattern_match(&s->arg->pattern, s->text);
}

static int search_name(void *ctx, const struct match *m)
{
	struct search *s = ctx;
	struct match found = *m;

	if (m->func->kind == ELF_LABEL ||
		(s->ident.len &&
			!memmem(m->name->name, m->name->len, s->ident.p, s->ident.len)))
		return 0;
	if (!search_text(s, mangled(m), s->full) &&
		!(s->arg->regex && search_text(s, mangled(m), true)))
		return 0;
	if (!demangle_into(mangled(m), DEMANGLE_NAME, &s->buf, &s->cap))
		return 0;
	found.shown = s->buf;
	return take(s->r, s->arg, &found);
}

static int find_patterns(struct resolver *r)
{
	for (size_t i = 0; i < r->arg_cnt; i++) {
		struct arg *a = &r->args[i];
		__cleanup(search_done) struct search s = {
			.r = r,
			.arg = a,
			.full = !a->regex && text_has_args(a->name),
		};

		if (!arg_is_open(a) || (!a->regex && !a->patterned))
			continue;
		s.ident = text_ident(a->name, a->regex, false);
		for (size_t k = 0; k < a->libs->cnt; k++) {
			int ret = each_mangled(r, a->libs->object[k], search_name, &s);

			if (ret)
				return ret;
		}
	}
	return 0;
}

int resolve_demangled(struct resolver *r)
{
	int ret = find_letters(r, FORM_USUAL);

	if (!ret)
		ret = find_letters(r, FORM_VERBOSE);
	if (!ret)
		ret = find_letters(r, FORM_INNER);
	if (!ret) /* those that have their outer scopes by now */
		ret = find_letters(r, FORM_USUAL);
	return ret ? ret : find_patterns(r);
}

/* --- copies of functions that the compiler has inlined, by debug information ------------------- */

#define INTO_SHOWN 3
#define NAMES_READ 4 /* reading debug information for each of more takes long */

struct meant {
	const char *name, *wanted; /* as typed, and normalized */
	enum demangle_form form;
};

static bool text_is(const struct meant *m, const char *text)
{
	size_t len = strlen(text), end = strlen(m->wanted);

	if (len == end)
		return !strcmp(text, m->wanted);
	return len >= end + 2 && !strcmp(text + len - end, m->wanted) &&
		!memcmp(text + len - end - 2, "::", 2);
}

/* True if the user means a function with that name in the debug information. */
static bool is_meant(void *arg, const char *name)
{
	const struct meant *m = arg;
	_cleanup_free_ char *text = NULL;

	if (!strcmp(name, m->name))
		return true;
	text = demangle(name, m->form);
	if (!text)
		text = xstrdup(name);
	text_normalize(text, text);
	if (m->form == DEMANGLE_ARGS)
		text_drop_qualifiers(text);
	return text_is(m, text) || (text_drop_templates(text, text) && text_is(m, text));
}

static bool is_symbol(void *symbol, const char *name)
{
	return !strcmp(symbol, name);
}

/* "main, run and walk", "main, run, walk and 2 more" */
static void list_into(const struct object *lib, const struct elf_inlined *inlined, char *buf,
	size_t size)
{
	size_t cnt = inlined->into_cnt, shown = cnt < INTO_SHOWN ? cnt : INTO_SHOWN, at = 0;

	for (size_t i = 0; i < shown && at < size; i++) {
		uint64_t start = inlined->into[i];
		_cleanup_free_ char *name =
			resolve_start_name(elf_file_func_at(lib->elf, start), start);

		at += snprintf(buf + at, size - at, "%s%s",
			!i ? "" : i + 1 == cnt ? " and " : ", ", name);
	}
	if (shown < cnt && at < size)
		snprintf(buf + at, size - at, " and %zu more", cnt - shown);
}

/* Adds the copies of the function @name in @lib as one target. */
static int add_copies(struct resolver *r, struct arg *a, const struct object *lib,
	const char *name, const struct elf_inlined *inlined)
{
	_cleanup_free_ char *shown = xasprintf("%s (inlined)", name), *note = NULL;
	struct match m = { .lib = lib, .inside = true, .shown = shown,
		.places = inlined->copies, .place_cnt = inlined->copy_cnt,
		.places_split = inlined->split_cnt };
	char into[512], low[64] = "";

	a->copies_gone |= inlined->copies_gone;
	if (!inlined->copy_cnt)
		return 0;
	list_into(lib, inlined, into, sizeof(into));
	if (inlined->split_cnt)
		snprintf(low, sizeof(low), "; the count of %zu may be too low",
			inlined->split_cnt);
	m.note = note = xasprintf("'%s' was inlined into %s: %zu site%s counted, without times%s",
		name, into, m.place_cnt, m.place_cnt == 1 ? " is" : "s are", low);
	m.addr = m.places[0];
	m.func = elf_file_func_at(lib->elf, m.addr);
	return match_add(r, a, &m);
}

/* Adds the copies of a function without code of its own. */
static int find_missing(struct resolver *r, struct arg *a)
{
	_cleanup_free_ char *wanted = xstrdup(a->name);
	struct meant m = { a->name, wanted,
		text_has_args(a->name) ? DEMANGLE_ARGS : DEMANGLE_NAME };
	const struct object *importer;
	const char *import;
	int ret = 0;

	if (resolve_imports(a, &importer, &import))
		return 0;
	text_normalize(wanted, wanted);
	for (size_t i = 0; !ret && i < a->libs->cnt; i++) {
		__cleanup(elf_inlined_done) struct elf_inlined inlined;

		elf_inlined_find(a->libs->object[i]->elf, a->name, is_meant, &m, &inlined);
		ret = add_copies(r, a, a->libs->object[i], a->name, &inlined);
	}
	return ret;
}

/* Adds the other copies of the functions that were found for @a. */
static int find_others(struct resolver *r, struct arg *a)
{
	size_t end = r->res->cnt;
	int ret = 0;

	for (size_t i = r->first; !ret && i < end; i++) {
		const struct target *t = &r->res->target[i];
		__cleanup(elf_inlined_done) struct elf_inlined inlined = {};

		if (t->request != a->req || !t->symbol || t->inside || t->from_pattern ||
			!elf_inlined_is_quick(t->object->elf))
			continue;
		elf_inlined_find(t->object->elf, t->symbol, is_symbol,
			(void *)(uintptr_t)t->symbol, &inlined);
		ret = add_copies(r, a, t->object, t->name, &inlined);
	}
	return ret;
}

int resolve_inlined(struct resolver *r)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < r->arg_cnt; i++) {
		struct arg *a = &r->args[i];

		if (a->req->literal || a->req->optional || a->regex || a->patterned || a->has_plus ||
			a->has_at || a->version || a->line || a->lines)
			continue;
		if (arg_is_open(a))
			ret = find_missing(r, a);
		else if (r->arg_cnt <= NAMES_READ)
			ret = find_others(r, a);
	}
	return ret;
}
