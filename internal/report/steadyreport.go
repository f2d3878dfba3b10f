package report

// steadyParts reports runs of constant loads.
func steadyParts(d *Document, vs []view, ss []steadyView) {
	d.Title = "A constant load of " + ss[0].target()
	for i := range ss {
		d.say(false, ss[i].verdicts(len(ss) > 1)...)
	}
	d.Notes = allProblems(vs)
	short := &section{Title: "In short", Parts: []Part{sideBySide(ss)}}
	if len(ss) == 1 {
		short.In = inHTML | inMarkdown
	}
	d.add(short)
	for i := range ss {
		v := &ss[i]
		of := ": " + v.label
		causes := &section{Title: "What went with the time below target" + of, Parts: v.causes().some()}
		for _, text := range []string{v.absent(), v.missing()} {
			if text != "" {
				causes.Parts = append(causes.Parts, paragraph(sentence(text)))
			}
		}
		hours := &section{Title: "By hour of the day" + of, Parts: []Part{
			paragraph(sentence("the clock is " + v.zoneText() + "; the worst hour was " + v.worst())), v.hours()}}
		d.add(causes, hours)
	}
	d.add(runColumns(vs))
}
