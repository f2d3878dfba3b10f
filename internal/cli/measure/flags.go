package measure

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/target"
)

// proofVar defines the flags about existing tables and the proof.
func proofVar(flags *pflag.FlagSet, s *experiment.Spec, noVerify string) {
	dropExistingVar(flags, &s.DropExisting)
	flags.BoolVar(&s.NoVerify, "no-verify", false, noVerify+" (default false)")
}

func dropExistingVar(flags *pflag.FlagSet, drop *bool) {
	flags.BoolVar(drop, "drop-existing", false, "drop the benchmark's tables first if they exist, with all their rows (default false)")
}

func seedVar(flags *pflag.FlagSet, s *experiment.Spec, usage string) {
	flags.Uint64Var((*uint64)(&s.Seed), "seed", 1, usage)
}

func methodVar(flags *pflag.FlagSet, s *experiment.Spec) {
	flags.StringVar(&s.Method, "method", "", "how to insert: `single`, multi, prepared, pipeline (PostgreSQL) or load (default multi; on SQLite prepared)")
}

// targetVar defines --target of a verb with one target.
func targetVar(flags *pflag.FlagSet, s *experiment.Spec) {
	s.Targets = []string{target.Default}
	flags.Var(oneTarget{&s.Targets}, "target", target.Help)
	replicaVar(flags, s)
}

// oneTarget is the only target of a Spec, as a flag.
type oneTarget struct{ targets *[]string }

func (t oneTarget) Set(s string) error { *t.targets = []string{s}; return nil }
func (t oneTarget) String() string     { return strings.Join(*t.targets, ",") }
func (oneTarget) Type() string         { return "string" }

func replicaVar(flags *pflag.FlagSet, s *experiment.Spec) {
	flags.StringArrayVar(&s.Replicas, "replica", nil, "`URL` of a replica of the target, to measure its delay; may be given several times (default the\nreplicas of sandbox:...?replicas=N)")
}

// timeVar defines the flag for how long a verb of bench measures.
func timeVar(flags *pflag.FlagSet, d *experiment.Duration, value time.Duration, usage string) {
	cli.DurationVar(flags, d, "time", value, strings.Replace(usage, "`time`", "`time`, such as 90, 90s or 2h", 1))
}

// warmupVar defines the flag for how long the load runs before it is measured.
func warmupVar(flags *pflag.FlagSet, s *experiment.Spec, load string) {
	cli.DurationVar(flags, &s.Warmup, "warmup", 0, "first run "+load+" for this `time`, and don't measure that (default none)")
}

// fitInterval shortens the interval of a short run, unless it was given.
func fitInterval(flags *pflag.FlagSet, s *experiment.Spec) {
	if !flags.Changed("interval") {
		s.FitInterval()
	}
}

// onlyOwn refuses flags that --resume takes from the record. own are the flags that the user may
// give with --resume.
func onlyOwn(flags *pflag.FlagSet, own ...string) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if err == nil && f.Name != "resume" && !slices.Contains(own, f.Name) {
			err = cli.Usagef("without --"+f.Name, "--%s can't be given with --resume, which continues with the flags of the record", f.Name)
		}
	})
	return err
}

// earlierTimes are former names of --time, which are still accepted.
var earlierTimes = []string{"max-time", "for", "seconds", "query-time"}

// benchFlagName returns the present name of a flag of bench.
func benchFlagName(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if slices.Contains(earlierTimes, name) {
		name = "time"
	}
	return pflag.NormalizedName(name)
}
