/** Bars of 5 % to 100 %: the policy of the page forbids styles of single elements. */
const widths = Array.from({ length: 20 }, (_, index) => (index + 1) * 5)
  .map((width) => `.w${width}{background-size:${width}% 100%}`)
  .join('');

/** The style of every page: one sheet, no fonts and no pictures from other files. Text has a contrast of 4.5 or more in both schemes. */
export const style = `
:root{color-scheme:light dark;--paper:#fbfbf9;--card:#fff;--ink:#1b2330;--soft:#566072;--line:#e3e5e8;--mark:#1f5fbf;--pale:#a9c3ea;--wash:#eef3fa;--good:#17693f;--warn:#8a5300;--bad:#b3261e;--goodwash:#e8f4ed;--warnwash:#fbf1df;--badwash:#fcebe9}
@media (prefers-color-scheme:dark){:root{--paper:#11151b;--card:#181d25;--ink:#e8ebf0;--soft:#a3adbb;--line:#2b323d;--mark:#7db2ff;--pale:#3f5f8f;--wash:#1c2633;--good:#6fcf97;--warn:#e7b657;--bad:#ff8f86;--goodwash:#172a20;--warnwash:#2d2516;--badwash:#331d1c}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums}
main,header,footer{max-width:1080px;margin:0 auto;padding:0 24px}
header{padding-top:36px}
nav{font-size:13px;color:var(--soft);margin-bottom:18px}
a{color:var(--mark);text-decoration-thickness:1px;text-underline-offset:2px}
a:focus-visible,summary:focus-visible,[tabindex]:focus-visible{outline:2px solid var(--mark);outline-offset:2px;border-radius:3px}
h1{font-size:32px;line-height:1.15;margin:0 0 10px;letter-spacing:-.015em;font-weight:650;overflow-wrap:anywhere}
h2{font-size:18px;margin:40px 0 4px;letter-spacing:-.01em;font-weight:650}
h3{font-size:14px;margin:0;font-weight:600;overflow-wrap:anywhere}
p{margin:0 0 10px;max-width:72ch}
.note{color:var(--soft);font-size:13px;margin-bottom:12px;max-width:110ch}
ul.news{margin:0 0 12px;padding-left:18px}
ul.note{margin:10px 0 0;padding-left:18px}
.when{display:flex;flex-wrap:wrap;align-items:center;gap:6px 12px;margin:0;max-width:none;color:var(--soft)}
.lead{font-size:18px;line-height:1.45;margin:16px 0 0}
.status{display:inline-flex;align-items:center;gap:6px;font-weight:600;white-space:nowrap}
.status{vertical-align:text-bottom}
.status svg{width:1em;height:1em;flex:none}
.pill{padding:3px 12px 3px 9px;border-radius:99px;font-size:14px}
.ok{color:var(--good)}.held,.partial{color:var(--warn)}.failed{color:var(--bad)}.skipped,.interrupted,.locked,.not_tried{color:var(--soft)}
.pill.ok{background:var(--goodwash)}.pill.held,.pill.partial{background:var(--warnwash)}.pill.failed{background:var(--badwash)}.pill.interrupted,.pill.locked,.pill.skipped{background:var(--line);color:var(--ink)}
.details{display:flex;flex-wrap:wrap;gap:1px;margin:8px 0 12px;background:var(--line);border:1px solid var(--line);border-radius:10px;overflow:hidden}
.details div{flex:1 1 150px;background:var(--card);padding:12px 16px}
.details dt{font-size:12px;color:var(--soft)}
.details dd{margin:1px 0 0;font-size:19px;font-weight:600;letter-spacing:-.01em;overflow-wrap:anywhere}
.details small{display:block;font-size:12px;font-weight:400;color:var(--soft);letter-spacing:0}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(234px,1fr));gap:12px}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:10px;padding:11px 13px 7px;break-inside:avoid;min-width:0}
figcaption{display:flex;justify-content:space-between;align-items:baseline;gap:8px}
figcaption b{font-size:18px;font-weight:600;letter-spacing:-.01em;white-space:nowrap}
figcaption h3{overflow-wrap:break-word}
figure p{font-size:12px;color:var(--soft);margin:0 0 4px}
figure svg{display:block;width:100%;height:auto}
.grid{stroke:var(--line)}.median{stroke:var(--soft);stroke-dasharray:3 3}
.bar{fill:var(--pale)}.bar:hover{fill:var(--mark)}.now{fill:var(--mark)}.cut{stroke:var(--card);stroke-width:2}.trend{fill:none;stroke:var(--pale);stroke-width:2}.dot{fill:var(--pale)}
.cross{stroke:var(--bad);stroke-width:1.6;fill:none}.hit{fill:transparent}
svg text{fill:var(--soft);font-size:10.5px}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:10px;background:var(--card)}
table{border-collapse:collapse;width:100%;font-size:13.5px}
caption{text-align:left;padding:9px 14px 0;font-size:12.5px;color:var(--soft)}
th,td{padding:7px 12px;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}
tbody tr:last-child>*{border-bottom:0}
tbody tr:hover>*{background:var(--wash)}
thead th{font-weight:600;font-size:12px;color:var(--soft);white-space:nowrap;vertical-align:bottom}
tbody th{font-weight:600}
tbody th,td{white-space:nowrap}
details tbody th{white-space:normal;min-width:13em}
details td:nth-child(2){white-space:normal;min-width:9em}
details th bdi{overflow-wrap:anywhere}
td.n:has(.share){width:12em}
.n{text-align:right;white-space:nowrap}
td.why{white-space:normal;min-width:16em}
td bdi,th bdi{overflow-wrap:normal}
h1 bdi,h3 bdi,nav bdi{overflow-wrap:anywhere}
code,kbd{font:12.5px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
td code{overflow-wrap:anywhere}
pre{margin:6px 0 0;padding:9px 12px;background:var(--wash);border-radius:7px;overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere}
.share{float:left;width:64px;height:7px;margin:7px 14px 0 0;border-radius:2px;background:linear-gradient(var(--mark),var(--mark)) 0 0/0 100% no-repeat var(--line)}
${widths}
.zero{color:var(--soft)}
.box{border:1px solid var(--line);border-left:4px solid var(--soft);border-radius:8px;background:var(--card);padding:12px 16px;margin:10px 0;break-inside:avoid}
.box.failed{border-left-color:var(--bad);color:var(--ink)}.box.held,.box.partial{border-left-color:var(--warn);color:var(--ink)}.box.skipped{color:var(--ink)}
.box p{margin:4px 0 0;overflow-wrap:anywhere}
.box ul{margin:4px 0 0;padding-left:18px}
details{margin:10px 0;border:1px solid var(--line);border-radius:10px;background:var(--card)}
summary{padding:10px 14px;cursor:pointer}
summary h3{display:inline}
summary .note{margin:0 0 0 6px}
details .scroll{border:0;border-top:1px solid var(--line);border-radius:0 0 10px 10px}
footer p{max-width:none}
footer{padding-top:28px;padding-bottom:44px;color:var(--soft);font-size:12.5px}
@media (max-width:560px){details tbody th{min-width:7em}details td:nth-child(2){min-width:6em}td.n:has(.share){width:auto}main,header,footer{padding-left:16px;padding-right:16px}header{padding-top:22px}h1{font-size:26px}.plots{grid-template-columns:1fr}th,td{padding:6px}thead th,[aria-label=Freshness] td,[aria-label=Destinations] td{white-space:normal}[aria-label=Freshness] td:not(.n){min-width:6em}[aria-label=Freshness] :is(th,td):nth-child(2),[aria-label=Destinations] :is(th,td):nth-child(n+4):nth-child(-n+6){display:none}.lead{font-size:16px}[aria-label=Runs] thead,[aria-label="What changed"] :is(th,td):nth-child(3){display:none}tr[data-run]{display:block;padding:8px 0;border-bottom:1px solid var(--line)}tr[data-run]>*{display:block;border:0;padding:1px 12px;text-align:left}}
@media print{:root{color-scheme:light;--paper:#fff;--card:#fff;--ink:#111;--soft:#4a5260;--line:#d5d8dc;--mark:#1f5fbf;--pale:#a9c3ea;--wash:#f3f5f8;--good:#17693f;--warn:#8a5300;--bad:#b3261e;--goodwash:#fff;--warnwash:#fff;--badwash:#fff}body{font-size:11px}main,header,footer{max-width:none;padding-left:0;padding-right:0}header{padding-top:0}nav{display:none}.plots{grid-template-columns:repeat(4,1fr);gap:7px}h3{font-size:11px}figure h3{font-size:10px}.note,figure p,figcaption,pre,code,summary{font-size:9.5px}figcaption b{font-size:13px}.lead{font-size:13px}details::details-content{content-visibility:visible;block-size:auto}.scroll{overflow:visible}table{font-size:9.5px}th,td,thead th{padding:3px 5px;font-size:9.5px;white-space:normal}h2{margin-top:22px;break-after:avoid}tr{break-inside:avoid}*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
`.trim();
