/* record_account.pml - the account of a recording: which messages are in the file, which are lost, which are
 * skipped, and which never were to be recorded. One thing, which may be removed and made anew; recorders of one
 * name, one after another, killed between any two steps.
 *
 *   pub[g]       messages of the thing's generation g; the last K are still there to be taken
 *   access       OPEN; REFUSED: its words can be read, but it has no slot; UNREADABLE
 *   f_...        the positions, as the last group of the file says: the phase; the recorder's selection; of the
 *                thing: its generation, the first message that is not accounted for, whether it was left; whether
 *                a thing of that name could not be read, of which generation, and whether its messages are skipped,
 *                which none can say whose selection is not the one before: they are if there are positions of it
 *   f_untold     missing messages that the positions count and no event tells; f_told: those that events tell
 *   m_...        the same in the recorder's memory. A group writes all of it by one step
 *   mark[]       what the file accounts each message as; o[] the same of the open group
 *   class[]      (ghost) what a message is, by the file at the moment of its publication: L: to be recorded, S: to
 *                be skipped, O: before the first recorder, ANY: between a beginning and its first group, or of a
 *                thing of which no recorder could know more, such as one made anew after the last group, if the next
 *                recorder's selection is another one. SL: to be skipped, and found by a beginning; to be
 *                recorded, of a thing that cannot be read when the recorder stops; or in the last moment before its group;
 *              or not accounted for when a recorder begins that does not want the thing and cannot open it
 *
 * begin    make the file, if there is none; read the positions; look at the thing, open it if that can be done;
 *          count what is missing; group (phase RECORDING)
 * take     the next message, or count those that are overwritten, or pass over one that has expired; tell; group
 * come     a thing that could not be opened, or was made anew: open it
 * stop     come; take; count what could not be opened as lost; group (phase STOPPED); index; start: as begin
 * end      the same (phase ENDED)
 *
 * Checked: no message is accounted for twice. After an orderly end: each message of class L is in the file or lost,
 * each of class S in the file or skipped, each of class SL one of the three, each of class O none of them. In each group, the events and the untold
 * ones together are those that are accounted for as missing.
 * Switches: -DK=slots -DM=messages of a generation -DR=recorders -DANEW: made anew once -DSELECT: selections differ
 * Mutations, each must be caught:
 *   NOTNOTED     a thing that cannot be read at the beginning is noted in memory alone
 *   BYNAME       (ANEW) it is noted by its name, whichever generation has it
 *   STOPPEDSKIPS (SELECT) it is noted as skipped
 *   REFUSEDLOST  what a thing has that cannot be opened at a start is not closed as skipped
 *   REFUSEDOPEN  what a thing has that could not be opened is not closed as lost at a stop
 *   NOTLEFT      (SELECT) a recorder that does not want a thing leaves its position as it is
 *   NEWALWAYS    (SELECT) a thing without a position is new, whatever the selection was
 *   NOTSTOPPED   (SELECT) behind a stop, what cannot be read by another selection is noted as outside
 *   ONLYSAME     (ANEW, SELECT) what is noted as skipped is, by a recorder of the same selection alone
 *   BYINDEX      the phase STOPPED counts once the file has its index
 *   BYFILE       the phase is RECORDING once the file is there
 *   EXPIREDNOT   an expired message is not counted
 *   TOLDLATE     an event's group says that its losses are untold
 *   UNTOLDNOT    what is untold is not in the positions
 */
#ifndef K
#define K 1
#endif
#ifndef M
#define M 2
#endif
#ifndef R
#define R 3
#endif
#ifdef ANEW
#define G 2
#else
#define G 1
#endif
#define N (M*G)

#define FIRST 0
#define RECORDING 1
#define STOPPED 2
#define ENDED 3

#define OPEN 0
#define REFUSED 1
#define UNREADABLE 2

#define RECORDED 1
#define LOST 2
#define SKIPPED 3

#define O 1
#define L 2
#define S 3
#define ANY 4
#define SL 5

byte pub[G], gen, access;
byte mark[N], class[N];

byte f_phase; bool f_made, f_index; byte f_sel;
bool f_has, f_left, f_noted; byte f_skips, f_gen, f_pos, f_notedgen;
byte f_untold, f_told;
byte missing;				/* ghost: how many are marked as missing, but those of a generation that is forgotten */

bool m_has, m_left, m_noted; byte m_skips, m_gen, m_pos, m_notedgen;
byte untold, telling, late, forgot;
byte o[N];
bool open; byte ogen, cur;

bool busy, begins, ends, killed, last;	/* a recorder runs; it is before its first group, or before its last one; it is being killed; the last one */
bool done;

#define AT(g, p) ((g)*M+(p))
#ifdef BYNAME
#define NOTED (m_noted)
#else
#define NOTED (m_noted && m_notedgen==gen)
#endif
/* a selection: 0 has not the thing, the others have */
#define WANTS(sel) ((sel)>0)
/* what a note says of the messages */
#define OUTSIDE 0
#define SKIPS 1
#define IFKNOWN 2
/* all of it is skipped, also if it has no positions: the selection that noted it was the one before it */
#ifdef ONLYSAME
#define ALLSKIPPED (0)
#else
#define ALLSKIPPED (NOTED && m_skips==SKIPS)
#endif
#define SKIPPING (m_skips==SKIPS || (m_skips==IFKNOWN && m_has && m_gen==gen))
#define OLDEST(g) (pub[g]>K -> pub[g]-K : 0)

/* messages from..to-1 of the generation that is opened are missing */
inline miss(from, to, what) {
	p=from;
	do
	:: p<to -> assert(mark[AT(ogen,p)]==0 && o[AT(ogen,p)]==0); o[AT(ogen,p)]=what; untold++; p++
	:: else -> break
	od;
	p=0
}

inline group(phase, sel) {
	atomic {
		if :: open -> m_has=1; m_gen=ogen; m_pos=cur; m_left=0 :: else fi;
		missing=missing-forgot; forgot=0;
		p=0;
		do
		:: p<N ->
			if
			:: o[p]!=0 -> assert(mark[p]==0); mark[p]=o[p]; if :: o[p]!=RECORDED -> missing++ :: else fi; o[p]=0
			:: else
			fi;
			p++
		:: else -> break
		od;
		p=0;
		f_phase=phase; f_sel=sel; f_index=0;
		f_has=m_has; f_gen=m_gen; f_pos=m_pos; f_left=m_left;
#ifndef NOTNOTED
		f_noted=m_noted; f_notedgen=m_notedgen; f_skips=m_skips;
#endif
		f_told=f_told+telling; telling=0;
#ifdef UNTOLDNOT
		f_untold=0;
#else
		f_untold=untold+late; late=0;
#endif
		assert(f_told+f_untold==missing);
		begins=0; ends=0
	}
}

inline tell() {
	atomic {
		telling=telling+untold;
#ifdef TOLDLATE
		late=untold;
#endif
		untold=0 }
}

/* where it begins, and what is missing before that */
inline open_it(lo, hi, phase, isnew, rest) {
	ogen=gen;
	lo=(m_has && m_gen==gen -> m_pos : ((isnew && !(NOTED && !SKIPPING)) || ALLSKIPPED -> 0 : pub[gen]));
	hi=(rest && !m_left && (!NOTED || (m_has && m_gen==gen)) -> OLDEST(gen) : pub[gen]);
	if :: hi<lo -> hi=lo :: else fi;
	if
	:: phase==STOPPED || phase==ENDED || m_left || (NOTED && SKIPPING) -> miss(lo, hi, SKIPPED)
	:: else -> miss(lo, hi, LOST)
	fi;
	cur=hi; open=1; m_left=0; m_noted=0; m_skips=0;
	/* what is there yet is to be recorded from here on, if this beginning ends with its group */
	do
	:: hi<pub[ogen] -> if :: class[AT(ogen,hi)]==S -> class[AT(ogen,hi)]=SL :: else fi; hi++
	:: else -> break
	od;
	lo=0; hi=0
}

proctype Recorder() {
	byte phase, p, lo, hi, sel; bool wants, same;
	{
	skip;
start:	atomic {
		begins=1; f_made=1;
		sel=1;
#ifdef SELECT
		if :: skip :: sel=2 :: !last -> sel=0 fi;
#endif
		wants=WANTS(sel)
		}
	atomic {
		m_has=f_has; m_gen=f_gen; m_pos=f_pos; m_left=f_left;
		m_noted=f_noted; m_notedgen=f_notedgen; m_skips=f_skips;
		untold=f_untold; telling=0; late=0; forgot=0; open=0;
		p=0; do :: p<N -> o[p]=0; p++ :: else -> break od; p=0;
		phase=f_phase;
#ifdef BYINDEX
		if :: phase==STOPPED && !f_index -> phase=RECORDING :: else fi;
#endif
#ifdef NEWALWAYS
		same=1
#else
		same=(sel==f_sel)
#endif
		}
#ifdef BYFILE
	/* it died once before its first group, or the file is not its own */
	if :: phase==FIRST -> phase=RECORDING; same=1 :: else fi;
#endif
	atomic {
		/* positions of what is gone */
		if :: m_has && m_gen!=gen -> m_has=0; m_left=0; forgot=untold; untold=0 :: else fi;
		/* made anew after the last group, and the selection is another one: none knows whether it was selected */
		if
		:: phase!=FIRST && !same && !m_has && !(NOTED) ->
			lo=gen*M;
			do
			:: lo<gen*M+pub[gen] -> if :: class[lo]!=O -> class[lo]=ANY :: else fi; lo++
			:: else -> break
			od;
			lo=0
		:: else
		fi;
		if
		:: wants && access==OPEN -> open_it(lo, hi, phase, (phase!=FIRST && same), (phase==RECORDING || phase==ENDED))
#ifndef REFUSEDLOST
		/* closed up to here, without being opened */
		:: wants && access==REFUSED && (phase==STOPPED || phase==ENDED || m_left || ALLSKIPPED) ->
			ogen=gen;
			lo=(m_has -> m_pos : ((same && !(NOTED && !SKIPPING)) || ALLSKIPPED -> 0 : pub[gen]));
			hi=pub[gen];
			miss(lo, hi, SKIPPED);
			m_has=1; m_gen=gen; m_pos=pub[gen]; m_left=0; m_noted=0; m_skips=0; lo=0; hi=0
		:: wants && access==UNREADABLE && (phase==STOPPED || phase==ENDED) && !(NOTED) ->
			m_noted=1; m_notedgen=gen;
#ifdef NOTSTOPPED
			m_skips=(same -> SKIPS : OUTSIDE)
#elif defined(STOPPEDSKIPS)
			m_skips=SKIPS
#else
			m_skips=(same -> SKIPS : IFKNOWN)
#endif
#endif
		:: wants && access==REFUSED && !m_has && !ALLSKIPPED && (phase==FIRST || (phase==RECORDING && !same)) ->
			m_has=1; m_gen=gen; m_pos=pub[gen]; m_noted=0; m_skips=0
		:: wants && access==UNREADABLE && (phase==FIRST || (phase==RECORDING && !same)) && !(NOTED) ->
			m_noted=1; m_notedgen=gen; m_skips=0
#ifndef NOTLEFT
		:: !wants && access==OPEN && m_has && !m_left ->
			ogen=gen; lo=m_pos; hi=pub[gen];
			if
			:: phase==STOPPED || phase==ENDED || (NOTED && SKIPPING) -> miss(lo, hi, SKIPPED)
			:: else -> miss(lo, hi, LOST)
			fi;
			m_pos=pub[gen]; m_left=1; m_noted=0; m_skips=0; lo=0; hi=0
		/* it stays as it is: what it has by now may count as lost later, or behind a stop as skipped */
		:: !wants && access!=OPEN && m_has && !m_left ->
			lo=0;
			do
			:: lo<N -> if :: (class[lo]==S || class[lo]==L) && mark[lo]==0 -> class[lo]=SL :: else fi; lo++
			:: else -> break
			od;
			lo=0
#endif
		:: else
		fi };
	if :: tell() :: skip fi;
	group(RECORDING, sel);
	do
	:: atomic { open && cur<pub[ogen] ->
		if
		:: cur<OLDEST(ogen) -> lo=cur; hi=OLDEST(ogen); miss(lo, hi, LOST); cur=hi; lo=0; hi=0
		:: cur>=OLDEST(ogen) -> assert(mark[AT(ogen,cur)]==0); o[AT(ogen,cur)]=RECORDED; cur++
		:: cur>=OLDEST(ogen) ->
#ifndef EXPIREDNOT
			lo=cur; hi=cur+1; miss(lo, hi, LOST); lo=0; hi=0;
#endif
			cur++
		fi }
	:: untold>0 -> tell()
	:: true -> group(RECORDING, sel)
	/* it was removed: what is left of it is there */
	:: atomic { open && ogen!=gen && cur==pub[ogen] && untold==0 -> skip };
		group(RECORDING, sel);
		atomic { open=0; m_has=0; m_left=0 }
	:: atomic { wants && !open && access==OPEN && untold==0 ->
		if :: m_has && m_gen!=gen -> m_has=0; m_left=0 :: else fi; open_it(lo, hi, RECORDING, 1, 1) }
	:: atomic { (open -> ogen==gen && cur==pub[ogen] : access!=OPEN || !wants) && untold==0 && !last ->
		ends=1;
		/* what it could not open, but was to record, is lost up to here. How much that is cannot be seen where the
		 * thing cannot be read */
		if
#ifndef REFUSEDOPEN
		:: wants && !open && access==REFUSED ->
			if :: m_has && m_gen!=gen -> m_has=0; m_left=0 :: else fi;
			ogen=gen; lo=(m_has -> m_pos : (NOTED && !SKIPPING -> pub[gen] : 0)); hi=pub[gen];
			if
			:: m_left || (NOTED && SKIPPING) -> miss(lo, hi, SKIPPED)
			:: else -> miss(lo, hi, LOST)
			fi;
			m_has=1; m_gen=gen; m_pos=pub[gen]; m_left=0; m_noted=0; m_skips=0; lo=0; hi=0
#endif
		:: wants && !open && access==UNREADABLE ->
			lo=0;
			do
			:: lo<N -> if :: class[lo]==L && mark[lo]==0 -> class[lo]=SL :: else fi; lo++
			:: else -> break
			od;
			lo=0
		:: else
		fi };
		if
		:: true -> group(STOPPED, sel); f_index=1; atomic { open=0; goto start }
		:: true -> group(ENDED, sel); f_index=1; break
		:: true -> group(STOPPED, sel); f_index=1; break
		fi
	:: atomic { last && open && ogen==gen && cur==pub[ogen] && untold==0 && done -> skip };
		group(ENDED, sel); f_index=1; break
	od;
out:	atomic { phase=0; p=0; sel=0; wants=0; same=0; busy=0; begins=0; ends=0; open=0; killed=0 }
	} unless { killed; atomic { killed=0; phase=0; p=0; lo=0; hi=0; sel=0; wants=0; same=0; begins=0; ends=0; open=0; busy=0 } }
}

/* It publishes, and the thing changes */
active proctype World() {
	do
	:: atomic { pub[gen]<M ->
		class[AT(gen,pub[gen])]=(begins -> ANY :
			(f_phase==FIRST -> O :
			(f_noted && f_notedgen==gen -> ANY :
			(!WANTS(f_sel) -> (f_has && f_left && f_gen==gen -> S : ANY) :
			(ends -> SL :
			(f_phase==RECORDING -> L : S))))));
		pub[gen]++ }
	:: atomic { access!=OPEN -> access=OPEN }
	:: atomic { !done && access==OPEN && !open -> if :: access=REFUSED :: access=UNREADABLE fi }
#ifdef ANEW
	:: atomic { gen==0 && !last -> gen=1; access=OPEN }
#endif
	:: atomic { last && access==OPEN && pub[gen]==M -> done=1; break }
	od
}

active proctype Driver() {
	byte n, q;
	do
	:: n<R && !busy -> atomic { n++; busy=1; run Recorder() }
	:: n<R && busy && !killed -> killed=1
	:: n==R && !busy && !killed -> break
	:: n==R && busy && !killed -> killed=1
	od;
	atomic { last=1; busy=1; run Recorder() };
	atomic { done && !busy ->
		q=gen*M;
		do
		:: q<gen*M+M ->
			assert(!(class[q]==L) || mark[q]==RECORDED || mark[q]==LOST);
			assert(!(class[q]==S) || mark[q]==RECORDED || mark[q]==SKIPPED);
			assert(!(class[q]==SL) || mark[q]!=0);
			assert(!(class[q]==O) || mark[q]==0);
			q++
		:: else -> break
		od }
}
