package main

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
)

// machine describes the one that this runs on, as far as the system tells.
func machine() string {
	s := fmt.Sprintf("%d CPUs, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	if m := field("/proc/cpuinfo", `(?m)^model name\s*:\s*(.+)$`); m != "" {
		s = m + ", " + s
	}
	if kb, err := strconv.Atoi(field("/proc/meminfo", `MemTotal:\s*(\d+) kB`)); err == nil {
		s += fmt.Sprintf(", %d GiB", (kb+1<<19)>>20)
	}
	return s
}

func field(file, pattern string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	if m := regexp.MustCompile(pattern).FindSubmatch(text); m != nil {
		return string(m[1])
	}
	return ""
}

// versions returns the versions of the peers' modules that this was built with.
func versions() map[string]string {
	built := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			v := m.Version
			if m.Replace != nil {
				v = "this tree"
			}
			built[m.Path] = v
		}
	}
	of := map[string]string{}
	for _, p := range peers {
		if v := built[p.Module]; v != "" {
			of[p.Name] = v
		}
	}
	return of
}
