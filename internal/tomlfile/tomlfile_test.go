package tomlfile

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const text = `name = "a"
memory = { share = 0.5, of = "b" }
[defaults]
batch = 1_000
[[run]]
layout = '''
plain'''
[[run]]
by = ["x", "y"]
`
	root, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	run := root.Find("run")
	for i, c := range []struct {
		v    *Value
		want Place
	}{{root.Find("name"), Place{1, 1}}, {root.Find("memory").Find("of"), Place{2, 25}}, {root.Find("defaults"), Place{3, 2}}, {root.Find("defaults").Find("batch"), Place{4, 1}},
		{run.In[0], Place{5, 3}}, {run.In[0].Find("layout"), Place{6, 1}}, {run.In[1].Find("by"), Place{9, 1}}} {
		if c.v == nil || c.v.Place != c.want {
			t.Errorf("%d: %+v, want it at %v", i, c.v, c.want)
		}
	}
	if n, err := root.Find("defaults").Find("batch").Integer(); n != 1000 || err != nil {
		t.Errorf("batch is %d, error %v", n, err)
	}
	if l := run.In[0].Find("layout"); l.Text != "plain" || l.Content != (Place{7, 1}) {
		t.Errorf("layout is %q, from %v", l.Text, l.Content)
	}
	if by := run.In[1].Find("by"); by.What() != "a list" || len(by.In) != 2 || by.In[1].Text != "y" || run.What() != "a list of tables" {
		t.Errorf("by is %s of %d, run %s", by.What(), len(by.In), run.What())
	}
	if root.Find("none") != nil || (*Value)(nil).Find("name") != nil {
		t.Error("found what isn't there")
	}
}

func TestParseError(t *testing.T) {
	_, err := Parse([]byte("a = 1\nb = = 2\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "2:5: ") {
		t.Errorf("error %v", err)
	}
}

func TestDidYouMean(t *testing.T) {
	for name, want := range map[string]string{"evry": "did you mean every?", "keep": "did you mean keep?", "zzz": "one of every, keep"} {
		if got := DidYouMean(name, []string{"every", "keep"}); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
