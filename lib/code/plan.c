// SPDX-License-Identifier: BSD-2-Clause
// Plans one function at a time, from its bounds to its probes.
#include "base/util.h"
#include "code/plan.h"
#include "internal.h"

static void cleanup_planner(struct planner **p)
{
	planner_free(*p);
}

static void cleanup_plan(struct plan *plan)
{
	plan_done(plan);
}

static void cleanup_decoder(struct insn_decoder **dec)
{
	insn_close(*dec);
}

/* Removes what a refused function does not have. */
static void strip_refused(struct plan *plan)
{
	free(plan->ends);
	free(plan->ranges);
	plan->ends = NULL;
	plan->ranges = NULL;
	plan->end_cnt = plan->range_cnt = 0;
	plan->exit = PLAN_EXIT_NONE;
	plan->exit_why[0] = '\0';
}

static void fill_ranges(const struct func *f, struct plan *plan)
{
	plan->ranges = xcalloc(f->range_cnt, sizeof(*plan->ranges));
	for (uint32_t i = 0; i < f->range_cnt; i++)
		plan->ranges[i] =
			(struct plan_range) { f->ranges[i].start, f->ranges[i].end };
	plan->range_cnt = f->range_cnt;
	if (f->too_big)
		plan->ranges[0].end = plan->addr + plan->size;
}

/* Handles an end on the instruction of the entry probe. */
static void check_forwarder(const struct func *f, struct plan *plan)
{
	for (size_t i = 0; i < plan->end_cnt; i++) {
		if (plan->ends[i].addr != plan->site)
			continue;
		plan->site_is_end = true;
		if (plan->ends[i].kind == PLAN_END_RET ||
			plan->ends[i].kind == PLAN_END_JMP)
			continue;
		plan->site_is_end = false;
		plan->exit = PLAN_EXIT_NONE;
		snprintf(plan->exit_why, sizeof(plan->exit_why),
			"its first instruction is a jump that may or may not leave the function");
		free(plan->ends);
		plan->ends = NULL;
		plan->end_cnt = 0;
	}
}

int func_plan(struct func *f, struct plan *plan)
{
	int ret = func_bounds(f, plan);

	if (ret || plan->refused[0])
		return ret;
	if (func_is_data(f)) {
		snprintf(plan->refused, sizeof(plan->refused),
			"no code calls it, and its bytes cannot begin a function: they are data");
		return 0;
	}
	func_find_go(f);
	flow_run(f);
	if (func_wants_ends(f))
		func_add_cold(f);
	fill_ranges(f, plan);
	func_exit(f, plan);
	func_site(f, plan);
	if (!plan->refused[0])
		func_early(f, plan);
	if (!plan->refused[0])
		check_forwarder(f, plan);
	return 0;
}

const char *plan_exit_text(enum plan_exit exit)
{
	static const char *const texts[] = {
		[PLAN_EXIT_NONE] = "none",
		[PLAN_EXIT_RETURN] = "return",
		[PLAN_EXIT_RET] = "ret",
		[PLAN_EXIT_EARLY] = "early",
	};

	return texts[exit];
}

int plan_insn_probe_ok(enum plan_arch arch, const uint8_t *bytes, size_t len,
	const struct plan_rules *rules, char *why, size_t size)
{
	struct insn_decoder *dec __cleanup(cleanup_decoder) = NULL;
	struct err err;
	struct insn insn;
	int ret = insn_open(arch, &dec, &err);

	if (ret) {
		snprintf(why, size, "%s", err.msg);
		return ret;
	}
	if (!insn_decode(dec, bytes, len, 0, &insn)) {
		snprintf(why, size, "an instruction that is not known");
		return -EILSEQ;
	}
	return insn_probe_ok(arch, bytes, insn.len, rules, why, size) ? 0 : -ENOTSUP;
}

void plan_done(struct plan *plan)
{
	if (!plan)
		return;
	free(plan->ranges);
	free(plan->ends);
	*plan = (struct plan) { 0 };
}

int planner_plan(struct planner *p, const struct plan_request *req, struct plan *ret_plan,
	struct err *err)
{
	struct plan plan __cleanup(cleanup_plan) = { 0 };
	struct func f = { .p = p, .req = req };
	int ret = func_plan(&f, &plan);

	if (ret)
		return err_sys(err, ret, "cannot plan probes of '%s'",
			req->name ? req->name : "?");
	if (plan.refused[0])
		strip_refused(&plan);
	*ret_plan = plan;
	plan = (struct plan) { 0 };
	return 0;
}

void planner_free(struct planner *p)
{
	if (!p)
		return;
	insn_close(p->dec);
	cold_free(p->cold);
	proofs_free(p);
	free(p->insns);
	free(p->over);
	free(p->states);
	for (size_t i = 0; i < ARRAY_SIZE(p->queue); i++)
		free(p->queue[i]);
	free(p);
}

int planner_new(const struct plan_image *img, const struct plan_rules *rules,
	struct planner **ret_planner, struct err *err)
{
	struct planner *p __cleanup(cleanup_planner) = xcalloc(1, sizeof(*p));
	int ret;

	p->img = *img;
	p->rules = *rules;
	ret = insn_open(img->arch, &p->dec, err);
	if (ret)
		return ret;
	*ret_planner = TAKE_PTR(p);
	return 0;
}

/*
 * --- targets of tail calls, and which are worth tracking ----------------------------------------
 */

static size_t count_ends(const struct plan *plan, bool leaving)
{
	return COUNT_WHERE(plan->end_cnt, i, plan_end_leaves(plan->ends[i].kind) == leaving);
}

/* Returns the index of the function that starts at @addr, or func_cnt. */
static size_t find_func(const struct follow *f, uint64_t addr)
{
	size_t at = FIRST_WHERE(f->func_cnt, i, f->funcs[i].plan->addr >= addr);

	return at < f->func_cnt && f->funcs[at].plan->addr == addr ? at : f->func_cnt;
}

/* With @behind, of the instructions after the calls of the function at @addr. */
static size_t find_place(const struct follow *f, uint64_t addr, bool behind)
{
	size_t i = 0;

	while (i < f->place_cnt && (f->places[i].addr != addr || f->places[i].behind != behind))
		i++;
	return i;
}

static bool leads_on(const struct follow *f, const struct plan *plan, int level);

/* True if the function's probes see the returns of calls that enter at its entry. */
static bool sees_ends(const struct follow *f, const struct plan *plan, int level)
{
	if (plan->refused[0] || plan->exit == PLAN_EXIT_NONE || plan->goroutine)
		return false;
	return !plan->site_is_end || leads_on(f, plan, level);
}

static bool is_followed(const struct follow *f, const struct plan_end *end, int level)
{
	size_t i;

	if (!end->target || end->kind == PLAN_END_RET || level > FOLLOW_LEVELS)
		return false;
	i = find_func(f, end->target);
	if (i < f->func_cnt)
		return sees_ends(f, f->funcs[i].plan, level);
	return find_place(f, end->target, false) < f->place_cnt;
}

static bool leads_on(const struct follow *f, const struct plan *plan, int level)
{
	return plan->end_cnt == 1 && is_followed(f, &plan->ends[0], level + 1);
}

/* True if @end is a direct jump to what cannot be tracked, such as another file. */
static bool jumps_away(const struct follow *f, const struct plan_end *end)
{
	return (end->kind == PLAN_END_JMP || end->kind == PLAN_END_JCC) && !is_followed(f, end, 0);
}

/* True if @end of @plan is one, and the instructions are probed to which the function returns. */
static bool returns_behind(const struct follow *f, const struct plan *plan, const struct plan_end *end)
{
	return jumps_away(f, end) && find_place(f, plan->addr, true) < f->place_cnt;
}

/* True if the returns of the function are probed at its ends, and not by goroutine. */
static bool has_ends(const struct plan *plan)
{
	return !plan->refused[0] && !plan->goroutine &&
		(plan->exit == PLAN_EXIT_RET || plan->exit == PLAN_EXIT_EARLY);
}

bool follow_forwards(const struct follow *f, const struct plan *plan)
{
	return plan->site_is_end && plan->exit == PLAN_EXIT_RET &&
		(leads_on(f, plan, 0) || returns_behind(f, plan, &plan->ends[0]));
}

bool follow_leads_to(const struct follow *f, const struct plan *plan)
{
	size_t i = find_func(f, plan->addr);

	return i < f->func_cnt && f->funcs[i].led;
}

bool follow_end(const struct follow *f, const struct plan *plan, const struct plan_end *end,
	struct follow_to *ret_to)
{
	size_t i;

	if (returns_behind(f, plan, end)) {
		i = find_place(f, plan->addr, true);
		*ret_to = (struct follow_to) { .no = f->first + i, .behind = &f->places[i].plan };
		return true;
	}
	if (!is_followed(f, end, 0))
		return false;
	i = find_func(f, end->target);
	if (i < f->func_cnt) {
		*ret_to = (struct follow_to) { f->funcs[i].no, true, NULL };
		return true;
	}
	i = find_place(f, end->target, false);
	*ret_to = (struct follow_to) { f->first + i, f->places[i].entry, NULL };
	return true;
}

/* --- selecting places ------------------------------------------------------------------------- */

struct wanted {
	uint64_t addr;
	size_t jumps; /* tail calls to .addr */
};

struct chooser {
	struct planner *p;
	struct follow *f;
	follow_request_fn request;
	void *arg;
	size_t rets_left;
	struct wanted *wanted;
	size_t wanted_cnt;
};

DEFINE_ORDER(compare_addrs, struct wanted, RISING(addr))

/* Sorts addresses with the most tail calls first. */
DEFINE_ORDER(compare_jumps, struct wanted, FALLING(jumps) ?: RISING(addr))

static void want_targets(struct chooser *c, const struct plan *plan)
{
	for (size_t i = 0; i < plan->end_cnt; i++) {
		const struct plan_end *end = &plan->ends[i];

		if (end->kind == PLAN_END_RET || !end->target ||
			find_func(c->f, end->target) < c->f->func_cnt)
			continue;
		*array_add(c->wanted, c->wanted_cnt) = (struct wanted) { end->target, 1 };
	}
}

/* Merges duplicates: one entry per address with its number of tail calls, highest first. */
static void merge_wanted(struct chooser *c)
{
	size_t cnt = 0;

	if (!c->wanted_cnt)
		return;
	qsort(c->wanted, c->wanted_cnt, sizeof(*c->wanted), compare_addrs);
	for (size_t i = 0; i < c->wanted_cnt; i++) {
		if (cnt && c->wanted[cnt - 1].addr == c->wanted[i].addr)
			c->wanted[cnt - 1].jumps++;
		else
			c->wanted[cnt++] = c->wanted[i];
	}
	c->wanted_cnt = cnt;
	qsort(c->wanted, cnt, sizeof(*c->wanted), compare_jumps);
}

bool image_is_stub(const struct plan_image *img, uint64_t addr)
{
	size_t len;
	const uint8_t *code = image_code(img, addr, &len);

	return !code || insn_is_plt(img->arch, code, len);
}

static int choose_place(struct chooser *c, uint64_t addr, struct err *err)
{
	struct plan_request req = { .addr = addr };
	struct plan plan;
	size_t rets;
	int code;

	if (image_is_stub(&c->p->img, addr) || !image_is_start(&c->p->img, addr))
		return 0;
	c->request(c->arg, &req);
	code = planner_plan(c->p, &req, &plan, err);
	if (code)
		return code;
	rets = count_ends(&plan, false);
	if (!has_ends(&plan) || rets > FOLLOW_RETS_MAX || rets > c->rets_left) {
		plan_done(&plan);
		return 0;
	}
	c->rets_left -= rets;
	/* A call left by an exception is detected when its entry is probed again. */
	*array_add(c->f->places, c->f->place_cnt) = (struct follow_place) { addr, plan,
		plan.site_emulated && !plan.site_is_end, false };
	return 0;
}

static int choose_places(struct chooser *c, struct err *err)
{
	size_t first = 0, end;
	int code = 0;

	for (size_t i = 0; i < c->f->func_cnt; i++)
		want_targets(c, c->f->funcs[i].plan);
	for (int level = 1; !code && level <= FOLLOW_LEVELS && c->wanted_cnt; level++) {
		merge_wanted(c);
		for (size_t i = 0; !code && i < c->wanted_cnt; i++)
			if (find_place(c->f, c->wanted[i].addr, false) == c->f->place_cnt)
				code = choose_place(c, c->wanted[i].addr, err);
		c->wanted_cnt = 0;
		end = c->f->place_cnt;
		for (; !code && first < end; first++)
			want_targets(c, &c->f->places[first].plan);
	}
	return code;
}

/* --- where functions return to that jump to other files --------------------------------------- */

#define CALLERS_CODE (8ULL << 20) /* a file with more code is not searched */

/* Bytes of a direct call of a function with a jump to another file, if they are an instruction. */
struct direct_call {
	uint64_t at, target;
	uint32_t fde;
};

struct calls {
	const struct plan_image *img;
	struct addrs targets;
	struct direct_call *of;
	size_t cnt;
	struct addrs probed; /* other probes of functions */
};

static void add_call(void *arg, uint64_t at, uint64_t target)
{
	struct calls *c = arg;
	uint32_t fde = fde_index(c->img, at);

	if (fde != NO_FDE)
		*array_add(c->of, c->cnt) = (struct direct_call) { at, target, fde };
}

/* Adds the instruction after @call in the function @f, if it can have a probe. */
static void add_behind(struct func *f, const struct calls *c, const struct direct_call *call,
	struct follow_place *place)
{
	const struct insn *insn = func_insn(f, call->at), *next;
	char why[PLAN_WHY_LEN];

	if (!insn || !func_state(f, insn)->seen || insn->flow != INSN_CALL)
		return;
	next = func_insn(f, insn->addr + insn->len);
	if (!next || !func_state(f, next)->seen || addrs_have(&c->probed, next->addr) ||
		place->plan.end_cnt == FOLLOW_CALLS_MAX ||
		!insn_probe_ok(f->p->img.arch, func_bytes(f, next), next->len, &f->p->rules, why,
			sizeof(why)))
		return;
	*array_add(place->plan.ends, place->plan.end_cnt) = (struct plan_end) {
		.addr = next->addr, .kind = PLAN_END_EARLY,
		.stepped = !insn_emulated(
			f->p->img.arch, func_bytes(f, next), next->len, &f->p->rules),
		.place.offset = f->p->img.arch == PLAN_X86_64 ? -8 : 0 };
}

/* Follows the code of the function with @calls[@cnt]: those that it reaches are instructions. */
static int confirm_calls(struct planner *p, struct follow *f, const struct calls *c,
	const struct direct_call *calls, size_t cnt)
{
	const struct plan_request req = { .addr = p->img.fdes[calls[0].fde].start };
	struct func func = { .p = p, .req = &req };
	struct plan plan __cleanup(cleanup_plan) = {};
	int code = func_plan(&func, &plan);

	if (code || !func.insn_cnt)
		return code;
	for (size_t i = 0; i < cnt; i++)
		add_behind(&func, c, &calls[i], &f->places[find_place(f, calls[i].target, true)]);
	return 0;
}

/* Lists functions that jump to other files, as places without ends, and all probes. */
static void list_leavers(struct follow *f, struct calls *c)
{
	for (size_t i = 0; i < f->func_cnt; i++) {
		const struct plan *plan = f->funcs[i].plan;
		bool leaves = false;

		*array_add(c->probed.addr, c->probed.cnt) = plan->site;
		for (size_t k = 0; k < plan->end_cnt; k++) {
			const struct plan_end *end = &plan->ends[k];

			*array_add(c->probed.addr, c->probed.cnt) = end->addr;
			leaves |= jumps_away(f, end);
		}
		if (leaves && has_ends(plan))
			*array_add(c->targets.addr, c->targets.cnt) = plan->addr; /* functions are sorted */
	}
	for (size_t i = 0; i < f->place_cnt; i++) {
		const struct plan *plan = &f->places[i].plan;

		*array_add(c->probed.addr, c->probed.cnt) = plan->site;
		for (size_t k = 0; k < plan->end_cnt; k++)
			*array_add(c->probed.addr, c->probed.cnt) = plan->ends[k].addr;
	}
	for (size_t i = 0; i < c->targets.cnt; i++)
		*array_add(f->places, f->place_cnt) = (struct follow_place) { .addr = c->targets.addr[i],
			.plan = { .addr = c->targets.addr[i], .exit = PLAN_EXIT_EARLY },
			.behind = true };
}

static int find_places_behind(struct follow *f, struct planner *p)
{
	struct calls c = { .img = &p->img };
	size_t code = 0, first = f->place_cnt, cnt;
	int ret = 0;

	for (size_t i = 0; i < p->img.text_cnt; i++)
		code += p->img.texts[i].size;
	if (code > CALLERS_CODE)
		return 0;
	list_leavers(f, &c);
	addrs_sort(&c.probed);
	image_find_calls(c.img, false, &c.targets, add_call, &c);
	for (size_t i = 0, n; !ret && i < c.cnt; i += n) {
		for (n = 1; i + n < c.cnt && c.of[i + n].fde == c.of[i].fde;)
			n++;
		ret = confirm_calls(p, f, &c, &c.of[i], n);
	}
	cnt = first;
	for (size_t i = first; i < f->place_cnt; i++) /* with some */
		if (f->places[i].plan.end_cnt)
			f->places[cnt++] = f->places[i];
	f->place_cnt = cnt;
	free(c.targets.addr);
	free(c.of);
	free(c.probed.addr);
	return ret;
}

int follow_find(struct follow *f, struct planner *p, follow_request_fn request, void *arg,
	struct err *err)
{
	struct chooser c = { .p = p, .f = f, .request = request, .arg = arg };
	size_t own = 0;
	int code;

	for (size_t i = 0; i < f->func_cnt; i++)
		own += count_ends(f->funcs[i].plan, false);
	c.rets_left = own / FOLLOW_SHARE;
	if (c.rets_left < FOLLOW_RETS_MIN)
		c.rets_left = FOLLOW_RETS_MIN;
	code = choose_places(&c, err);
	free(c.wanted);
	return code ? code : find_places_behind(f, p);
}

static void mark_led(struct follow *f, const struct plan *plan)
{
	for (size_t i = 0; i < plan->end_cnt; i++) {
		size_t to = find_func(f, plan->ends[i].target);

		if (to < f->func_cnt && is_followed(f, &plan->ends[i], 0))
			f->funcs[to].led = true;
	}
}

void follow_number(struct follow *f, uint32_t first)
{
	f->first = first;
	for (size_t i = 0; i < f->func_cnt; i++)
		mark_led(f, f->funcs[i].plan);
	for (size_t i = 0; i < f->place_cnt; i++)
		mark_led(f, &f->places[i].plan);
}

void follow_done(struct follow *f)
{
	for (size_t i = 0; i < f->place_cnt; i++)
		plan_done(&f->places[i].plan);
	free(f->places);
	f->places = NULL;
	f->place_cnt = 0;
}

/*
 * --- explanations ------------------------------------------------------------------------------
 */

size_t follow_lost(const struct follow *f, const struct plan *plan)
{
	return COUNT_WHERE(plan->end_cnt, i,
		plan_end_leaves(plan->ends[i].kind) && !is_followed(f, &plan->ends[i], 0) &&
			!returns_behind(f, plan, &plan->ends[i]));
}

void follow_explain(const struct follow *f, struct plan *plan)
{
	size_t lost = follow_lost(f, plan), jumps = count_ends(plan, true),
	       len = strlen(plan->exit_why);
	char *end = plan->exit_why + len;
	size_t room = sizeof(plan->exit_why) - len;

	if ((plan->exit != PLAN_EXIT_RET && plan->exit != PLAN_EXIT_EARLY) || !jumps)
		return;
	if (!lost && find_place(f, plan->addr, true) < f->place_cnt)
		snprintf(end, room, ": timed after %zu direct calls",
			f->places[find_place(f, plan->addr, true)].plan.end_cnt);
	else if (!lost)
		snprintf(end, room, ": followed");
	else if (lost < jumps)
		snprintf(end, room,
			": %zu followed, calls that take another are not timed",
			jumps - lost);
	else if (plan->end_cnt > jumps)
		snprintf(end, room, ": calls that take one are not timed");
	else
		snprintf(end, room, ": its calls are not timed");
}
