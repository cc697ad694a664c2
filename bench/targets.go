package main

// What the workloads call things, as the goals and the headline table need it, in
// one place.

// A headline is a column of the headline table: the largest measured of the cases
// that match. {n} in its title is how many entries that has.
type headline struct {
	title    string
	workload string
	c        Case
	metric   string
}

var headlines = []headline{
	{"get string 1M zipf t1, ns", "get", Case{Keys: "string", Entries: million, Dist: "zipf", Threads: 1}, "ns/op"},
	{"get uint64 1M zipf t1, ns", "get", Case{Keys: "uint64", Entries: million, Dist: "zipf", Threads: 1}, "ns/op"},
	{"90/10 string 1M t2, ns", "mix90", Case{Keys: "string", Entries: million, Threads: 2}, "ns/op"},
	{"insert string growing t1, ns", "insert", Case{Keys: "string", Threads: 1, Variant: "growing"}, "ns/op"},
	{"storm of {n}: Get p99.9, µs", "storm", Case{Keys: "string"}, "Get p99.9 storm"},
	{"storm of {n}: stalled, ms", "storm", Case{Keys: "string"}, "stalled ms"},
	{"heap per entry string {n}, B", "heap", Case{Keys: "string", Variant: "growing"}, "B/entry"},
	{"callback late p99, ms", "accuracy", Case{Keys: "string", Variant: "-"}, "late p99 ms"},
}

func goals() []goal {
	var list []goal
	add := func(workload string, c Case, metric string, per *other, op string, bound float64) {
		list = append(list, goal{workload: workload, c: c, metric: metric, per: per, op: op, bound: bound})
	}
	get := func(keys string, entries int, dist, peer, op string, bound float64) {
		add("get", Case{Keys: keys, Entries: entries, Dist: dist, Threads: 1}, "ns/op", against(peer), op, bound)
	}
	get("string", million, "zipf", "map", "≤", 1.2)
	get("string", million, "uniform", "map", "≤", 1.3)
	get("string", million, "", "otter", "≤", 0.5)
	get("string", million, "", "xsync", "<", 1)
	get("uint64", million, "zipf", "map", "≤", 1.6)
	get("uint64", million, "uniform", "map", "≤", 2)
	get("uint64", million, "", "otter", "≤", 0.4)
	get("", 10_000, "", "map", "≤", 1.5)
	get("", 10_000, "", "otter", "≤", 0.35)

	for _, workload := range []string{"get", "get-hot", "get-miss", "mix90", "mix50"} {
		add(workload, Case{Threads: 1}, "ns/op", &other{threads: 2}, "≥", 1.9)
	}
	for _, workload := range []string{"mix90", "mix50"} {
		add(workload, Case{Threads: 2}, "ns/op", against(bestTTL), "<", 1)
		add(workload, Case{Threads: 2}, "ns/op", against("otter"), "≤", 0.5)
	}

	add("hit-load", Case{Variant: "-"}, "ns/op", &other{metric: getPerOp}, "≤", 1.1)
	add("hit-load", Case{}, "allocs/op", nil, "≤", 0)
	add("herd", Case{}, mostLoads, nil, "≤", 1)
	add("herd-many", Case{}, mostLoads, nil, "≤", 1)

	add("full-get", Case{Variant: "-"}, "ns/op", &other{metric: roomyPerOp}, "≤", 1.1)
	add("full-get", Case{}, "allocs/op", nil, "≤", 0)
	add("evict", Case{}, "ns/op", against("otter"), "≤", 0.5)
	add("evict", Case{}, "allocs/op", nil, "≤", 0)
	add("evict", Case{}, heldPercent, nil, "≤", 100)

	growing, sized := Case{Threads: 1, Variant: "growing"}, Case{Threads: 1, Variant: "sized"}
	add("overwrite", Case{Threads: 1}, "ns/op", against("otter"), "≤", 0.5)
	add("overwrite", Case{Threads: 1}, "allocs/op", nil, "≤", 0)
	add("insert", growing, "ns/op", against("otter"), "≤", 0.5)
	add("insert", growing, "allocs/op", nil, "≤", 0.02)
	add("insert", sized, "ns/op", against("otter"), "≤", 0.4)
	add("insert", sized, "allocs/op", nil, "≤", 0)
	for _, c := range []Case{growing, sized} {
		add("insert", c, "ns/op", against("bigcache"), "≤", 1)
		add("insert", c, "ns/op", against("freecache"), "≤", 1)
	}

	storm := Case{Entries: million}
	add("storm", storm, "M/s drained", nil, "≥", 6)
	add("storm", storm, "Get p99.9 storm", &other{metric: "Get p99.9 calm"}, "≤", 1.2)
	add("storm", storm, "Set p99.9 storm", &other{metric: "Set p99.9 calm"}, "≤", 5)
	add("storm", storm, "stalled ms", nil, "≤", 0)

	add("heap", Case{Entries: million, Variant: "sized"}, "B/entry", nil, "≤", 42)
	add("heap", Case{Entries: million, Variant: "growing"}, "B/entry", nil, "≤", 62)
	add("heap", Case{Entries: 10_000}, "B/entry", nil, "≤", 60)
	for _, variant := range []string{"sized", "growing"} {
		add("heap", Case{Variant: variant}, "B/entry", against(bestTTL), "<", 1)
	}
	add("heap", Case{Variant: "empty"}, "KB/cache", nil, "≤", 8)
	add("heap", Case{Variant: "small"}, "KB/cache", nil, "≤", 24)
	add("gc", Case{Keys: "uint64", Entries: 5 * million}, "ms CPU/GC", against("otter"), "≤", 0.01)
	add("idle", Case{Entries: million}, "CPU ms in 10 s", nil, "≤", 1)
	add("emptied", Case{}, "held %", nil, "≤", 1)

	tick := Case{Variant: "tick=1ms"}
	add("accuracy", Case{Variant: "-"}, "late p99 ms", nil, "≤", 15)
	add("accuracy", tick, "late p50 ms", nil, "≤", 0.8)
	add("accuracy", tick, "late p99 ms", nil, "≤", 2.1)
	for _, metric := range []string{"Gets late", "out of bounds", "lost", "doubled"} {
		add("accuracy", Case{}, metric, nil, "≤", 0)
	}
	add("steady", Case{}, "% core", nil, "≤", 0.05)
	return list
}
