// SPDX-License-Identifier: BSD-2-Clause
/* Types and parameters as C declares them, and where the calling convention puts them. */
#include "internal.h"

#include <errno.h>
#include <string.h>

/* State of a scan over a declaration's tokens. */
struct scan {
	const char *text, *p;
	const char *words[8]; /* identifiers before the first star */
	size_t lens[8];
	size_t word_cnt;
	const char *name; /* the identifier after the stars */
	size_t name_len;
	unsigned int stars;
	bool is_const; /* target of the first star is const */
	bool array;
	const char *why;
};

static bool is_ident(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		(c >= '0' && c <= '9') || c == '_' || c == '$';
}

static bool word_is(const char *word, size_t len, const char *text)
{
	return strlen(text) == len && !memcmp(word, text, len);
}

static bool word_in(const char *word, size_t len, const char *const *list)
{
	for (; *list; list++)
		if (word_is(word, len, *list))
			return true;
	return false;
}

/* Returns the position after the closing bracket, or NULL. */
static const char *skip_bracket(const char *p)
{
	char open = *p, close = open == '<' ? '>' : open == '(' ? ')' : ']';
	unsigned int depth = 0;

	for (; *p; p++) {
		if (*p == open)
			depth++;
		else if (*p == close && !--depth)
			return p + 1;
	}
	return NULL;
}

/* An identifier with its scopes and template arguments: at::Tensor, std::vector<int>. */
static const char *skip_ident(const char *p)
{
	for (;;) {
		while (is_ident(*p))
			p++;
		if (*p == '<')
			p = skip_bracket(p);
		if (!p)
			return NULL;
		if (p[0] != ':' || p[1] != ':')
			return p;
		p += 2;
	}
}

static const char *const qualifiers[] = { "const", "volatile", "restrict", "__restrict",
	"__restrict__", "struct", "enum", "union", "class", "typename", "_Atomic", NULL };

static const char *const type_words[] = { "void", "char", "short", "int", "long",
	"signed", "unsigned", "float", "double", "bool", "_Bool", "_Complex", NULL };

static int scan_word(struct scan *s)
{
	const char *start = s->p, *end = skip_ident(start);
	size_t len;

	if (!end) {
		s->why = "a '<' is not closed";
		return -EINVAL;
	}
	if (end == start) {
		s->why = "an unexpected character";
		return -EINVAL;
	}
	s->p = end;
	len = (size_t)(end - start);
	if (word_in(start, len, qualifiers)) {
		if (!s->stars && word_is(start, len, "const"))
			s->is_const = true;
		return 0;
	}
	if (s->name || s->array || (!s->stars && s->word_cnt == ARRAY_SIZE(s->words))) {
		s->why = "too many words";
		return -EINVAL;
	}
	if (s->stars) {
		s->name = start;
		s->name_len = len;
	} else {
		s->words[s->word_cnt] = start;
		s->lens[s->word_cnt++] = len;
	}
	return 0;
}

/* "(*name)(arguments)": a pointer to a function; the text ends with it. */
static int scan_function(struct scan *s)
{
	const char *p = s->p + 1, *end = skip_bracket(s->p);

	s->why = "a '(' that begins no pointer to a function";
	while (*p == ' ')
		p++;
	if (!end || *p != '*' || *end != '(' || s->stars + s->word_cnt == 0)
		return -EINVAL;
	for (p++; *p == ' ' || *p == '*'; p++)
		;
	s->name = is_ident(*p) ? p : NULL;
	while (is_ident(*p))
		p++;
	s->name_len = s->name ? (size_t)(p - s->name) : 0;
	p = skip_bracket(end);
	if (!p || *p)
		return -EINVAL;
	s->p = p;
	s->stars = 1;
	s->is_const = false;
	s->word_cnt = 0;
	s->why = NULL;
	return 0;
}

static int scan_text(struct scan *s)
{
	int rc = 0;

	while (!rc && *s->p) {
		if (*s->p == ' ') {
			s->p++;
		} else if (*s->p == '*' || *s->p == '&') {
			if (s->name || s->array || !s->word_cnt) {
				s->why = "a '*' or '&' out of place";
				return -EINVAL;
			}
			s->stars++;
			s->p++;
		} else if (*s->p == '[') {
			s->array = true;
			s->p = skip_bracket(s->p);
			if (!s->p) {
				s->why = "a '[' is not closed";
				return -EINVAL;
			}
		} else if (*s->p == '(') {
			rc = scan_function(s);
		} else if (is_ident(*s->p) || *s->p == ':') {
			rc = scan_word(s);
		} else {
			s->why = "an unexpected character";
			return -EINVAL;
		}
	}
	return rc;
}

struct basic {
	const char *name;
	enum type_kind kind;
	uint8_t size;
	bool is_signed;
};

static const struct basic basics[] = {
	{ "void", TYPE_VOID, 0, false },
	{ "bool", TYPE_BOOL, 1, false },
	{ "_Bool", TYPE_BOOL, 1, false },
	{ "float", TYPE_FLOAT, 4, true },
	{ "double", TYPE_FLOAT, 8, true },
	{ "size_t", TYPE_INT, 8, false },
	{ "ssize_t", TYPE_INT, 8, true },
	{ "std::size_t", TYPE_INT, 8, false },
	{ "ptrdiff_t", TYPE_INT, 8, true },
	{ "intptr_t", TYPE_INT, 8, true },
	{ "uintptr_t", TYPE_INT, 8, false },
	{ "int8_t", TYPE_INT, 1, true },
	{ "uint8_t", TYPE_INT, 1, false },
	{ "int16_t", TYPE_INT, 2, true },
	{ "uint16_t", TYPE_INT, 2, false },
	{ "int32_t", TYPE_INT, 4, true },
	{ "uint32_t", TYPE_INT, 4, false },
	{ "int64_t", TYPE_INT, 8, true },
	{ "uint64_t", TYPE_INT, 8, false },
	{ "off_t", TYPE_INT, 8, true },
	{ "time_t", TYPE_INT, 8, true },
	{ "pid_t", TYPE_INT, 4, true },
	{ "uid_t", TYPE_INT, 4, false },
	{ "gid_t", TYPE_INT, 4, false },
	{ "mode_t", TYPE_INT, 4, false },
	{ "socklen_t", TYPE_INT, 4, false },
};

/* unsigned, signed, char, short, int, long in any order; false: something else. */
static bool basic_integer(const struct scan *s, struct preset_value *ret)
{
	unsigned int n_signed = 0, n_unsigned = 0, n_char = 0, n_short = 0, n_int = 0,
		     n_long = 0;

	for (size_t i = 0; i < s->word_cnt; i++) {
		const struct {
			const char *word;
			unsigned int *cnt;
		} known[] = {
			{ "signed", &n_signed },
			{ "unsigned", &n_unsigned },
			{ "char", &n_char },
			{ "short", &n_short },
			{ "int", &n_int },
			{ "long", &n_long },
		};
		size_t k;

		for (k = 0; k < ARRAY_SIZE(known); k++)
			if (word_is(s->words[i], s->lens[i], known[k].word))
				break;
		if (k == ARRAY_SIZE(known) || ++*known[k].cnt > (k == 5 ? 2 : 1))
			return false;
	}
	if (n_signed + n_unsigned > 1 || (n_char && n_short + n_int + n_long) ||
		(n_short && n_long))
		return false;
	ret->kind = TYPE_INT;
	ret->size = n_char ? 1 : n_short ? 2 : n_long ? 8 : 4;
	/* Plain char counts as signed, also on arm64, where it is not. */
	ret->is_signed = !n_unsigned;
	return true;
}

static bool words_are(const struct scan *s, const char *first, const char *second)
{
	return s->word_cnt == 2 && word_is(s->words[0], s->lens[0], first) &&
		word_is(s->words[1], s->lens[1], second);
}

static bool basic_type(const struct scan *s, struct preset_value *ret)
{
	if (words_are(s, "long", "double")) {
		*ret = (struct preset_value) { .kind = TYPE_FLOAT, .size = 16, .is_signed = true };
		return true;
	}
	if (words_are(s, "float", "_Complex") || words_are(s, "double", "_Complex")) {
		*ret = (struct preset_value) { .kind = TYPE_COMPLEX,
			.size = *s->words[0] == 'f' ? 8 : 16, .is_signed = true };
		return true;
	}
	for (size_t i = 0; s->word_cnt == 1 && i < ARRAY_SIZE(basics); i++) {
		const struct basic *b = &basics[i];

		if (!word_is(s->words[0], s->lens[0], b->name))
			continue;
		*ret = (struct preset_value) {
			.kind = b->kind,
			.size = b->size,
			.is_signed = b->is_signed,
		};
		return true;
	}
	return basic_integer(s, ret);
}

/* The last of several words is the name, unless it is a part of the type. */
static void split_name(struct scan *s)
{
	size_t last = s->word_cnt - 1;

	if (s->name || s->word_cnt < 2 ||
		word_in(s->words[last], s->lens[last], type_words))
		return;
	s->name = s->words[last];
	s->name_len = s->lens[last];
	s->word_cnt--;
}

static int resolve(
	const struct scan *s, type_lookup_fn *lookup, void *ctx, struct declaration *ret)
{
	const struct preset_type *type;

	if (basic_type(s, &ret->value))
		return 0;
	if (s->word_cnt != 1 || s->lens[0] >= sizeof(ret->unknown))
		return -EINVAL;
	memcpy(ret->unknown, s->words[0], s->lens[0]);
	ret->unknown[s->lens[0]] = '\0';
	type = lookup ? lookup(ctx, ret->unknown) : NULL;
	if (!type)
		return -EINVAL;
	ret->unknown[0] = '\0';
	ret->value = (struct preset_value) {
		.kind = type->kind,
		.size = type->size,
		.is_signed = type->is_signed,
		.type = type,
	};
	return 0;
}

/* Registers and stack used by the previous arguments. */
struct places {
	enum preset_abi abi;
	uint32_t regs, floats, stack;
};

static void place_stack(struct places *p, struct preset_arg *arg, uint32_t words)
{
	arg->place.where = PLACE_STACK;
	arg->place.index = p->stack;
	arg->place.words = words;
	p->stack += words;
}

/* BPF programs cannot read floating point registers, so such an argument has no location. */
static void place_float(struct places *p, struct preset_arg *arg)
{
	const struct preset_value *v = &arg->value;
	bool arm = p->abi == PRESET_ABI_ARM64;
	bool is_long_double = v->kind == TYPE_FLOAT && v->size == 16;
	/* A complex number is two arguments on arm64, packed by eight bytes on x86-64. */
	uint32_t words = v->size > 8 ? 2 : 1, regs = words;

	if (v->kind == TYPE_COMPLEX && arm)
		regs = 2;
	else if (is_long_double)
		regs = arm ? 1 : 8 + 1; /* always in memory on x86-64 */
	if (p->floats + regs <= 8) {
		p->floats += regs;
		return;
	}
	/* AAPCS64 C.3: once one went to the stack, no later one takes a register. */
	if (arm)
		p->floats = 8;
	if (is_long_double)
		p->stack += p->stack & 1;
	place_stack(p, arg, words);
}

/* Structures that are not, or not only, in general registers. */
static void place_mixed(struct places *p, struct preset_arg *arg)
{
	const struct preset_value *v = &arg->value;
	uint32_t most = p->abi == PRESET_ABI_ARM64 ? 8 : 6, words = (v->size + 7) / 8;

	if (v->passing == PASS_NOT)
		return;
	if (v->passing == PASS_FLOATS && p->floats + v->floats <= 8 &&
		p->regs + v->words <= most) {
		p->floats += v->floats;
		p->regs += v->words;
		return;
	}
	if (p->abi == PRESET_ABI_ARM64)
		p->floats = 8;
	if (v->is_even)
		p->stack += p->stack & 1;
	place_stack(p, arg, words);
}

static void place_one(struct places *p, struct preset_arg *arg)
{
	const struct preset_value *v = &arg->value;
	bool arm = p->abi == PRESET_ABI_ARM64;
	uint32_t words = v->size > 8 ? (v->size + 7) / 8 : 1;
	bool big = v->kind == TYPE_STRUCT && v->size > 16;

	arg->place = (struct preset_place) { .where = PLACE_NOWHERE };
	if (v->kind == TYPE_FLOAT || v->kind == TYPE_COMPLEX) {
		place_float(p, arg);
		return;
	}
	if (v->passing != PASS_USUAL) {
		place_mixed(p, arg);
		return;
	}
	if ((big && arm) || v->kind == TYPE_CLASS) {
		arg->place.by_ref = true;
		words = 1;
		big = false;
	} else if (v->is_even && arm) {
		p->regs += p->regs & 1; /* AAPCS64 C.10 */
	}
	if (big || p->regs + words > (arm ? 8 : 6)) {
		/* AAPCS64 C.13, like C.3; on x86-64 a later argument may use the rest. */
		if (arm)
			p->regs = 8;
		if (v->is_even)
			p->stack += p->stack & 1;
		place_stack(p, arg, words);
		return;
	}
	arg->place.where = PLACE_REG;
	arg->place.index = p->regs;
	arg->place.words = words;
	p->regs += words;
}

int declaration_parse(const char *text, bool with_name, type_lookup_fn *lookup, void *ctx,
	struct declaration *ret, const char **ret_why)
{
	struct scan s = { .text = text, .p = text };
	bool is_char;

	*ret = (struct declaration) { .name = NULL };
	*ret_why = NULL;
	if (scan_text(&s)) {
		*ret_why = s.why;
		return -EINVAL;
	}
	if (!s.stars)
		split_name(&s);
	if (!s.stars && !s.word_cnt)
		*ret_why = "no type";
	else if (s.name && !with_name)
		*ret_why = "a name where only a type is meant";
	if (*ret_why)
		return -EINVAL;
	ret->name = s.name;
	ret->name_len = s.name_len;
	if (!s.stars && !s.array) {
		if (!resolve(&s, lookup, ctx, ret))
			return 0;
		if (!ret->unknown[0])
			*ret_why = "no type that is known here";
		return -EINVAL;
	}
	is_char = s.word_cnt == 1 && word_is(s.words[0], s.lens[0], "char");
	ret->value = (struct preset_value) { .kind = TYPE_POINTER, .size = 8 };
	/* Without const, the call writes the target, or it is not text yet. */
	if (is_char && s.stars == 1 && !s.array && (s.is_const || !with_name))
		ret->value.kind = TYPE_STRING;
	return 0;
}

void args_place(struct preset_arg *args, size_t cnt, const struct preset_value *ret,
	enum preset_abi abi)
{
	struct places p = { .abi = abi };

	/* x86-64 passes the address of a result in memory first; arm64 passes it in x8. */
	if (abi == PRESET_ABI_X86_64 &&
		(ret->kind == TYPE_CLASS ||
			(ret->kind == TYPE_STRUCT && ret->size > 16 && ret->passing != PASS_FLOATS)))
		p.regs = 1;
	for (size_t i = 0; i < cnt; i++)
		place_one(&p, &args[i]);
}
